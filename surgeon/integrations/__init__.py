"""surgeon inside other tools: adapters that are imported only by those who use the tool.

No other package of surgeon imports an adapter, except the command that starts it, and `surgeon.file.kinds` for a tool
that is imported already.  Each one names the versions that it is tested with.
"""

__all__ = ["assistant_server"]
