"""Integers that a model computes from sizes: shapes, indices, masks and positions."""

__all__ = ["affine_index", "affine_mask", "equal_columns", "integer_values", "symbolic_elements"]
