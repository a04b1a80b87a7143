"""Sizes as expressions: sums, products and quotients of dims, and the number of bits of an integer."""

__all__ = ["integer_width", "polynomials", "ratios", "size_expressions"]
