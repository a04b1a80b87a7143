"""Duplicate nodes and duplicate sizes."""

from surgeon import Graph, Tensor, rule, searches


@rule(search=searches.repeated_nodes, target="any")
def duplicate_nodes(g: Graph, first: list[Tensor]) -> list[Tensor]:
    """Merge a node into an equal earlier node: its consumers read the earlier one.

    What: nodes of the same op with equal attributes and the same inputs, or equal small constants.  The first stays.
    Some are never merged: nodes that draw random numbers or contain graphs, custom ops, and calls of local functions.
    Nor are QuantizeLinear and DequantizeLinear, because ONNX Runtime needs one for each consumer to run it on integers.
    Numerics: none.  The values are those of the node that stays.
    """
    return first


@rule(search=searches.repeated_sizes, target="any")
def duplicate_sizes(g: Graph, first: Tensor) -> Tensor:
    """Merge sizes into equal sizes that an earlier node computes.

    What: integers computed from Shapes that also follow from the shape of an earlier tensor: lengths that each layer
    reads from its queries, target shapes of each layer.  Sizes of two inputs with the same name count as equal only if
    torch.export determined them.  Other sources may reuse a name without this meaning.
    Numerics: none.
    """
    return first
