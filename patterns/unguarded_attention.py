"""Attention that hides no row whole: NaN of an empty softmax need not be looked for behind it."""

from typing import Any, cast

from surgeon import Captures, Graph, Tensor, rule
from ._nodes import Node, Projected, group_query, multi_head, of_projections, without_mask
from ._scores import without_nan

DIFFERS = {
    "non_finite": "what an infinity or NaN makes of a row is no longer set to zero",
    "extreme": "NaN of scores past the largest number of the dtype is no longer set to zero",
}


def of_heads(g: Graph, m: Node) -> Tensor:
    """MultiHeadAttention or GroupQueryAttention without a mask."""
    return without_nan(g, g.any_of(multi_head(g, m)[0], group_query(g, m)[0]))


def behind_a_past(g: Graph, m: Node) -> tuple[Tensor, ...]:
    """MultiHeadAttention without a mask, and the keys and values that the next step starts with."""
    made, *present = multi_head(g, m)
    return without_nan(g, made), *present


def of_whole(g: Graph, m: Projected) -> Tensor:
    """com.microsoft::Attention without a mask."""
    return without_nan(g, g.ms_attention(m.q, m.weights, m.added, **m.attributes))


@rule(patterns=[of_heads, behind_a_past, of_whole], differs=DIFFERS)
def unguarded_attention(g: Graph, m: Captures) -> Any:
    """Take out the search for NaN behind an attention without a mask, or with none but the future hidden.

    What: torch sets rows to zero of which all keys are hidden; where each row sees a key there are none.
    Numerics: none, for finite numbers.
    """
    return of_projections(g, m) if isinstance(m, Projected) else without_mask(g, cast(Node, m))
