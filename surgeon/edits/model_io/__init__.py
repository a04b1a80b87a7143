"""Inputs and outputs: set to a value, reordered, added, dropped, or given another dtype."""

__all__ = ["outputs", "reorder", "retype", "set_input"]
