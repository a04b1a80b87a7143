"""Attention that hides no row whole: NaN of an empty softmax need not be looked for behind it."""

from typing import Any

from surgeon import Graph, Tensor, rule
from ._attention import without_nan

DIFFERS = {
    "non_finite": "what an infinity or NaN makes of a row is no longer set to zero",
    "extreme": "NaN of scores past the largest number of the dtype is no longer set to zero",
}


def of_heads(g: Graph, q: Tensor, k: Tensor, v: Tensor, **attributes: Any) -> Tensor:
    """MultiHeadAttention without a mask."""
    return without_nan(g, g.ms_multi_head_attention(q, k, v, **attributes))


def of_projections(g: Graph, x: Tensor, w: Tensor, b: Tensor, **attributes: Any) -> Tensor:
    """com.microsoft::Attention without a mask."""
    return without_nan(g, g.ms_attention(x, w, b, **attributes))


def of_groups(g: Graph, q: Tensor, k: Tensor, v: Tensor, last: Tensor, total: Tensor, **attributes: Any) -> Tensor:
    """GroupQueryAttention without a mask."""
    return without_nan(g, g.ms_group_query_attention(q, k, v, None, None, last, total, outputs=3, **attributes)[0])


@rule(patterns=[of_heads, of_projections, of_groups], differs=DIFFERS)
def unguarded_attention(
    g: Graph,
    attributes: dict[str, Any],
    q: Any = None,
    k: Any = None,
    v: Any = None,
    x: Any = None,
    w: Any = None,
    b: Any = None,
    last: Any = None,
    total: Any = None,
) -> Any:
    """Take out the search for NaN behind an attention without a mask, or with none but the future hidden.

    What: torch sets rows to zero of which all keys are hidden; where each row sees a key there are none.
    Numerics: none, for finite numbers.
    """
    if x is not None:
        return g.ms_attention(x, w, b, **attributes)
    if last is not None:
        return g.ms_group_query_attention(q, k, v, None, None, last, total, outputs=3, **attributes)[0]
    return g.ms_multi_head_attention(q, k, v, **attributes)


def behind_a_past(
    g: Graph, q: Tensor, k: Tensor, v: Tensor, past_key: Tensor, past_value: Tensor, **attributes: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """MultiHeadAttention behind a past, without a mask."""
    parts = (q, k, v, None, None, None, past_key, past_value)
    made, keys, values = g.ms_multi_head_attention(*parts, outputs=3, **attributes)
    return without_nan(g, made), keys, values


@rule(patterns=[behind_a_past], differs=DIFFERS)
def unguarded_attention_cache(
    g: Graph, q: Tensor, k: Tensor, v: Tensor, past_key: Tensor, past_value: Tensor, attributes: dict[str, Any]
) -> Any:
    """Take out the search for NaN behind an attention that takes a past, as `unguarded_attention` does.

    What: torch sets rows to zero of which all keys are hidden; where each row sees a key there are none.
    Numerics: none, for finite numbers.
    """
    parts = (q, k, v, None, None, None, past_key, past_value)
    return g.ms_multi_head_attention(*parts, outputs=3, **attributes)
