"""What sizes must fulfil together: equations of a graph, and sizes that solve them."""

__all__ = ["constraint_solver", "input_dims"]
