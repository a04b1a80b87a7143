"""Edits of inputs, outputs and their order: set to a value, reorder, add, drop, or change the dtype; sort nodes."""

__all__ = ["outputs", "reorder", "retype", "set_input", "sort_nodes", "weight_inputs"]
