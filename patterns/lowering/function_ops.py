"""Ops that ONNX defines by function bodies, written as these bodies if the target does not support them."""

from surgeon import Graph, Match, Tensor, emit_body, rule, searches


@rule(search=searches.defined_nodes, target="any", lacking=True)
def function_ops(
    g: Graph, match: Match, tensors: list[Tensor], places: list[int | None], used: list[bool]
) -> list[Tensor]:
    """Replace an op that the target does not support by its function body: AffineGrid, SwiGLU, CenterCropPad, ...

    What: any op of ai.onnx whose schema has a function body, if the target has no kernel for it or does not support it
    with these inputs and attributes, and if it supports all ops of the body.
    Numerics: rounding only.  The body is the definition of the op.
    """
    body = searches.standard_body(match)
    given = {item.name: item for item in match.root.proto.attribute}
    inputs = [None if place is None else tensors[place] for place in places]
    return emit_body(g, body, inputs, given, outputs=used, settle=True)
