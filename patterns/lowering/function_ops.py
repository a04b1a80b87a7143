"""Ops that ONNX defines by others, written as these where the target does not have them."""

from surgeon import Graph, Match, Tensor, emit_body, rule, searches


@rule(search=searches.defined_nodes, target="any", lacking=True)
def function_ops(
    g: Graph, match: Match, tensors: list[Tensor], places: list[int | None], used: list[bool]
) -> list[Tensor]:
    """Write an op that the target lacks by the body that ONNX defines it by: AffineGrid, SwiGLU, CenterCropPad, ...

    What: any op of ai.onnx whose schema has a function body, where the target has no kernel for it or does not take it
    as it stands there, and has all that the body is written in.
    Numerics: rounding only; it is the op's own definition.
    """
    body = searches.standard_body(match)
    given = {item.name: item for item in match.root.proto.attribute}
    inputs = [None if place is None else tensors[place] for place in places]
    return emit_body(g, body, inputs, given, outputs=used, settle=True)
