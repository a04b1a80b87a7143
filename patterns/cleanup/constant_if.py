"""If by a condition that is fixed: the branch that is taken stands in its place."""

from typing import Any

from surgeon import Graph, Tensor, emit_body, rule, searches


@rule(search=searches.decided_branches, target="any")
def constant_if(g: Graph, body: Any, outside: list[Tensor], weights: list[Any], used: list[bool]) -> list[Tensor]:
    """Take the branch of an If whose condition is a constant, or computed from constants and fixed sizes alone.

    What: the nodes of the branch come into the graph around it, with its weights; the other branch goes.
    Numerics: none; the same nodes compute it.
    """
    inputs = [*outside, *(g.literal(values) for values in weights)]
    return emit_body(g, body, inputs, {}, outputs=used)
