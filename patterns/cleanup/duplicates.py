"""What is there twice: nodes that compute the same, and sizes."""

from surgeon import Graph, Tensor, rule, searches


@rule(search=searches.repeated_nodes, target="any")
def duplicate_nodes(g: Graph, first: list[Tensor]) -> list[Tensor]:
    """Let readers of a node that repeats an earlier one read that one.

    What: nodes of the same op with equal attributes on the same inputs, or on equal small constants; the first stays.
    Never nodes that draw random numbers or hold graphs, custom ops, or calls of local functions; nor
    QuantizeLinear and DequantizeLinear, of which ONNX Runtime wants one for each reader to run that on integers.
    Numerics: none; the values are those of the node that stays.
    """
    return first


@rule(search=searches.repeated_sizes, target="any")
def duplicate_sizes(g: Graph, first: Tensor) -> Tensor:
    """Let readers of sizes that an earlier node tells as well read those.

    What: integers computed from Shapes, where the same follow from the shape of a tensor that is there earlier: lengths
    that each layer reads from its own queries, shapes that each reshapes to.  Sizes of two inputs that have one name
    are one where torch.export found them to be; else whoever named them may have meant nothing by it.
    Numerics: none.
    """
    return first
