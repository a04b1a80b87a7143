"""Faults of a model that can be seen without running it."""

__all__ = [
    "data_size",
    "dtype_conflicts",
    "finding",
    "graph_structure",
    "model_versions",
    "ort_load",
    "plugin_load",
    "shape_mismatches",
    "size_dependent_branches",
]
