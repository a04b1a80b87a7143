"""Inputs for models: generated ones that the ops accept, and those of the user."""

__all__ = [
    "consistent_sizes",
    "fractional_values",
    "input_generator",
    "input_spec",
    "mask_values",
    "string_values",
    "user_inputs",
]
