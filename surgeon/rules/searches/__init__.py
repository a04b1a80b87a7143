"""Searches for rules that no pattern can express; `surgeon.searches` lists them for users."""

__all__ = [
    "constant_conditions",
    "constant_folding",
    "counted_loops",
    "duplicate_initializers",
    "duplicate_nodes",
    "duplicate_sizes",
    "expanded_operands",
    "function_ops",
    "moved_layouts",
    "no_op_nodes",
    "positional_arguments",
    "redundant_casts",
    "redundant_qdq",
    "sequential_gathers",
]
