"""Nodes that keep the old dtype, and why."""

__all__ = ["missing_kernels", "selectors", "sensitive_nodes"]
