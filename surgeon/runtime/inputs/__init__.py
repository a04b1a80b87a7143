"""Inputs for models: generated ones that the ops accept, and those of the user."""

__all__ = [
    "consistent_sizes",
    "fill",
    "float_fills",
    "input_generator",
    "input_spec",
    "role_fills",
    "string_values",
    "user_inputs",
]
