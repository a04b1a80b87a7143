"""Building the nodes of a replacement, and inserting them into the graph."""

__all__ = [
    "insertion_point",
    "node_builder",
    "recreated_nodes",
    "replacement",
    "replacement_builder",
    "rule_functions",
    "splicer",
]
