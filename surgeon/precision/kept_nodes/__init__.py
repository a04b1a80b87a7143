"""Nodes that stay in float32, and why."""

__all__ = ["missing_kernels", "selectors", "sensitive_nodes"]
