"""Nodes whose outputs have no consumers."""

from surgeon import Graph, Tensor, rule, searches


@rule(search=searches.unread_nodes, target="any")
def dead_nodes(g: Graph) -> list[Tensor]:
    """Remove nodes whose outputs have no consumers, and nodes that only they read.

    What: nodes left behind by the exporter, in bodies and local functions too, with all nodes and initializers that
    nothing else needs.  An output of the graph and a tensor in a quantization annotation count as read.  A node of an
    unknown domain stays, because it may have side effects.  An initializer that no node reads at all stays.
    Numerics: none.  No remaining node depends on them.
    """
    return []
