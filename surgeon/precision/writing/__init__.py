"""Writing a plan of dtypes into the model."""

__all__ = ["conversion_candidates", "draft_file", "type_check"]
