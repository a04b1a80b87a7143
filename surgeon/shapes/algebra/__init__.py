"""Sizes as expressions: sums and products of dims, quotients, and how many bits a number needs."""

__all__ = ["integer_width", "polynomials", "ratios", "size_expressions"]
