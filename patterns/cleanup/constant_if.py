"""If with a constant condition, replaced by the branch that is taken."""

from typing import Any

from surgeon import Graph, Tensor, emit_body, rule, searches


@rule(search=searches.decided_branches, target="any")
def constant_if(g: Graph, body: Any, outside: list[Tensor], weights: list[Any], used: list[bool]) -> list[Tensor]:
    """Replace an If by one of its branches if the condition is constant, or depends only on constants and fixed sizes.

    What: the nodes of the branch move to the surrounding graph, with its weights.  The other branch is removed.
    Numerics: none.  The same nodes compute the result.
    """
    inputs = [*outside, *(g.literal(values) for values in weights)]
    return emit_body(g, body, inputs, {}, outputs=used)
