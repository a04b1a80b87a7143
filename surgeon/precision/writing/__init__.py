"""A plan of dtypes, written into the model."""

__all__ = ["conversion_candidates", "type_check"]
