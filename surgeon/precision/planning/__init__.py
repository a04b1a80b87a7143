"""The dtype of each node, with as few casts as possible."""

__all__ = ["dtype_plan", "min_cut", "node_dtypes"]
