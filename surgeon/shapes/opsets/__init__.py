"""The meaning of a node at a newer opset: unchanged, changed by an adapter, or lost."""

__all__ = ["migration", "node_change"]
