"""Makes a fixed size dynamic, or a dynamic one fixed, throughout a graph."""

__all__ = ["baked_in_size", "dim_edits", "make_dynamic"]
