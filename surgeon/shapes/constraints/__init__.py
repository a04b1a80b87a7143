"""Constraints on sizes: equations of a graph, and sizes that satisfy them."""

__all__ = ["constraint_solver", "input_dims"]
