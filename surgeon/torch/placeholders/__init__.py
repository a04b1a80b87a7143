"""Placeholders: operators that become one node each in an export."""

__all__ = [
    "call_binding",
    "class_operators",
    "example_inputs",
    "export_plan",
    "op_names",
    "placeholder",
    "registration",
]
