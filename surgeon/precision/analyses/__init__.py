"""Analyses of ranges from the nodes: accumulation, exact integers, guards, fill values of masks."""

__all__ = [
    "accumulation",
    "decomposed_norms",
    "dtype_graph",
    "epsilon_guards",
    "exact_integers",
    "integer_overflow",
    "mask_sentinels",
    "stored_tensors",
]
