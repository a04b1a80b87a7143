"""Learns patterns of a module or function from its exports."""

__all__ = ["module_patterns"]
