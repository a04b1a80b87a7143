"""Edits of inputs and outputs: set to a value, reorder, add, drop, or change the dtype."""

__all__ = ["outputs", "reorder", "retype", "set_input"]
