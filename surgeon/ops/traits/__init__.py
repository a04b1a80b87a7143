"""Facts of an op beyond its schema, one record each: shape, numerics, indexing, randomness."""

__all__ = ["declared_traits", "dtype_traits", "op_category", "op_traits", "open_sizes", "trait_lookup", "weight_ops"]
