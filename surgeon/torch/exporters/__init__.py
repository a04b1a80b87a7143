"""Both exporters of torch, taught what they do not know."""

__all__ = ["builtin_mappings", "module_export"]
