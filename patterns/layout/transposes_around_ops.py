"""Nodes between Transposes or Reshapes that cancel if the nodes compute in the layout before them."""

from typing import Any

from surgeon import Graph, Tensor, emit_body, rule, searches


@rule(search=searches.moved_layouts, target="any")
def transposes_around_ops(g: Graph, tensors: list[Tensor], constants: list[Any], body: Any) -> list[Tensor]:
    """Compute in the layout before a Transpose, if fewer Transposes are left.

    What: elementwise nodes, Concat, Slice, Gather, Softmax, norms and reductions between Transposes, with the axes and
    constants in the other layout: Transpose, Add and the Transpose back.  Also elementwise nodes between a Squeeze or
    Reshape and the one that restores the shape.
    Numerics: rounding only.
    """
    return emit_body(g, body, [*tensors, *(g.literal(array) for array in constants)], {})
