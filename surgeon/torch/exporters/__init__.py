"""Exports with both exporters of torch, and reports the operators that they do not support."""

__all__ = ["builtin_mappings", "module_export"]
