"""What is there twice: nodes that compute the same."""

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
