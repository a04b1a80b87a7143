"""Attention whose mask hides the future alone: said by an attribute instead of a mask of rows times keys."""

from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require, rule
from ._attention import NON_FINITE
from ._hidden import LOWEST

DIFFERS = {"non_finite": NON_FINITE, "extreme": "a score beside which the mask's number is small is hidden too"}


def with_bias(g: Graph, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, **attributes: Any) -> Any:
    """MultiHeadAttention with a mask that is added."""
    return g.ms_multi_head_attention(q, k, v, None, None, mask, **attributes)


def grouped_with_bias(
    g: Graph, q: Tensor, k: Tensor, v: Tensor, last: Tensor, total: Tensor, mask: Tensor, **attributes: Any
) -> Any:
    """GroupQueryAttention with a mask that is added."""
    parts = (q, k, v, None, None, last, total, None, None, None, mask)
    return g.ms_group_query_attention(*parts, causal=0, outputs=3, **attributes)[0]


def cached_with_bias(
    g: Graph, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, past_key: Tensor, past_value: Tensor, **attributes: Any
) -> Any:
    """MultiHeadAttention behind a past, with a mask that is added."""
    return g.ms_multi_head_attention(q, k, v, None, None, mask, past_key, past_value, outputs=3, **attributes)


def grouped_cached_with_bias(
    g: Graph,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past_key: Tensor,
    past_value: Tensor,
    last: Tensor,
    total: Tensor,
    mask: Tensor,
    **attributes: Any,
) -> Any:
    """GroupQueryAttention behind a past, with a mask that is added."""
    parts = (q, k, v, past_key, past_value, last, total, None, None, None, mask)
    return g.ms_group_query_attention(*parts, causal=0, outputs=3, **attributes)


def standard_with_mask(g: Graph, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, **attributes: Any) -> Any:
    """Attention with a mask."""
    return g.attention(q, k, v, mask, **attributes)


def hides_the_future(mask: Tensor, past_key: Tensor | None = None) -> None:
    """Row i of the queries sees the keys up to i, or up to i behind the past, and no others."""
    found = mask.choice
    require(found is not None, "the mask depends on more than the places of rows and keys (padding?), so it stays")
    require(len(found.bounds) < 2, "the mask hides more than the future, such as what is long past, so it stays")
    is_condition = found.inside.dtype == np.bool_
    shows = is_condition  # True in a condition, 0 in what is added
    choice = found if not found.bounds or found.inside == shows else found.opposite
    low = choice.outside
    require(is_condition or low < LOWEST, f"{low} added to a score hides nothing")
    steps = [list(bound.strides) for bound in choice.bounds]
    is_diagonal = bool(steps) and not any(steps[0][:-2]) and steps[0][-2:] == [1, -1]
    require(choice.inside == shows and is_diagonal, "the mask does not divide the keys at a diagonal")
    start = 0 if past_key is None else past_key.shape[2]
    require(choice.bounds[0].offset == start, "the mask's diagonal does not begin behind the past, where the op's does")


def has_keys_for_rows(q: Tensor, k: Tensor) -> None:
    """There are as many keys as queries, not counting a past: the kernel puts the diagonal elsewhere for others."""
    require(q.rank == 3 and k.rank in (3, 4), "the axes of queries or keys are not known")
    require(q.shape[1] == k.shape[k.rank - 2], "there are more keys, or fewer, than queries")


@rule(
    patterns=[with_bias, grouped_with_bias],
    conditions=[has_keys_for_rows, hides_the_future],
    differs=DIFFERS,
)
def causal_attention(
    g: Graph,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attributes: dict[str, Any],
    last: Any = None,
    total: Any = None,
) -> Any:
    """Let MultiHeadAttention or GroupQueryAttention hide the future by itself, where that is all that a mask does.

    What: a mask that is 0 for the keys up to a row's own place and very low for those behind it.
    Numerics: rounding only, for finite numbers.
    """
    if last is None:
        return g.ms_multi_head_attention(q, k, v, **{**attributes, "unidirectional": 1})
    # causal unless told otherwise
    return g.ms_group_query_attention(q, k, v, None, None, last, total, outputs=3, **attributes)[0]


@rule(
    patterns=[cached_with_bias, grouped_cached_with_bias],
    conditions=[has_keys_for_rows, hides_the_future],
    differs=DIFFERS,
)
def causal_attention_cache(
    g: Graph,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past_key: Tensor,
    past_value: Tensor,
    attributes: dict[str, Any],
    last: Any = None,
    total: Any = None,
) -> Any:
    """Let attention behind a past hide the future by itself, where that is all that a mask does.

    What: as `causal_attention`; the diagonal begins behind the past.
    Numerics: rounding only, for finite numbers.
    """
    if last is not None:
        return g.ms_group_query_attention(q, k, v, past_key, past_value, last, total, outputs=3, **attributes)
    causal = {**attributes, "unidirectional": 1}
    return g.ms_multi_head_attention(q, k, v, None, None, None, past_key, past_value, outputs=3, **causal)


@rule(
    patterns=[standard_with_mask],
    conditions=[hides_the_future],
    target="onnx",
    opset=23,
    differs=DIFFERS,
)
def standard_causal_attention(g: Graph, q: Tensor, k: Tensor, v: Tensor, attributes: dict[str, Any]) -> Any:
    """Let Attention hide the future by itself, where that is all that a mask does.

    What: as `causal_attention`: is_causal instead of a mask, for attention without a past.
    Numerics: rounding only, for finite numbers.
    """
    return g.attention(q, k, v, **{**attributes, "is_causal": 1})
