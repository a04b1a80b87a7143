"""What the nodes say about ranges: accumulation, exact integers, guards, fills of masks."""

__all__ = [
    "accumulation",
    "decomposed_norms",
    "dtype_graph",
    "epsilon_guards",
    "exact_integers",
    "integer_range",
    "mask_sentinels",
    "stored_tensors",
]
