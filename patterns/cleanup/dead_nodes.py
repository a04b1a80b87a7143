"""Nodes whose outputs nobody reads."""

from surgeon import Graph, Tensor, rule, searches


@rule(search=searches.unread_nodes, target="any")
def dead_nodes(g: Graph) -> list[Tensor]:
    """Take out nodes whose outputs nobody reads, and what only they read.

    What: nodes that the exporter left behind, in bodies and local functions too, with the nodes and initializers that
    nothing else needs.  An output of the graph is read, and so is what a quantization annotation names.  Never a
    node of a domain that is not known here: it may do more than make its outputs.  An initializer that no node reads
    at all stays.
    Numerics: none; nothing that is left was computed from them.
    """
    return []
