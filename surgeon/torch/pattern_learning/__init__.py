"""Patterns of a module or function, from what the exporters write for it."""

__all__ = ["module_patterns"]
