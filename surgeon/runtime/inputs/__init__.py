"""Inputs for models: generated inputs that the ops accept, and the user's own."""

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
