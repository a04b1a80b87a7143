"""surgeon inside other tools: adapters that are imported only by those who use the tool.

No other package of surgeon imports an adapter, except the command that starts it, and `surgeon.file.kinds` for a tool
that is imported already.  Each one names the versions that it is tested with.  `surgeon.integrations.NAME` imports an
adapter on first use.
"""

from typing import Any

__all__ = ["assistant_server"]


def __getattr__(name: str) -> Any:
    from importlib import import_module
    from importlib.util import find_spec

    if name.startswith("_") or find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
