"""Local functions of a model, and function bodies of ops, in rules."""

__all__ = ["call_expansion", "function_definition", "inline_rules"]
