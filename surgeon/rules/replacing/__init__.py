"""The nodes that a replacement writes, and their place in the graph."""

__all__ = ["node_builder", "recreated_nodes", "replacement", "splicer"]
