"""Attention that caps its scores (Gemma 2, arXiv:2408.00118) and takes a past."""

from typing import Any

from surgeon import Graph, Match, Tensor, require, rule
from ._attention import NON_FINITE, dtype_of, finished, scale_of, scores, weighted
from ._cache import behind, is_a_cache, rows_of
from ._grouped import grouped_behind, require_steps
from ._layouts import heads_of_rows, size_of
from ._masks import bias_of, given, require_fits, spread_to
from .grouped_query_attention import are_copies, repeated


def capped(
    g: Graph,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past_key: Tensor,
    past_value: Tensor,
    mask: Tensor,
    second: Tensor,
    left: float,
    right: float,
    scale: float,
    cap: float,
    wide: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """softmax(cap · tanh(scale · q·kᵀ / cap) + mask)·v, and the keys and values, which the next step starts with."""
    keys, values = behind(g, past_key, k, "keys"), behind(g, past_value, v, "values")
    own, others = (g.any_of(repeated(g, x, name), x) for x, name in ((keys, "k"), (values, "v")))
    cold = g.maybe_wider(scores(g, q, g.transpose(own, perm=[0, 1, 3, 2]), left, right, scale, cap))
    masked = g.any_of(g.add(cold, mask, second), g.add(cold, mask), cold)
    return weighted(g, masked, others, wide), keys, values


def has_groups(match: Match) -> None:
    """Queries of fixed heads, and keys and values of as many, or of copies that make as many."""
    q, k = match["q"], match["k"]
    require("cap" in match.bound, "the scores are not capped, so another op takes the past")
    require(q.rank == 4, "the queries have other axes than batch, head, row, column")
    copied = ["k_copies" in match.bound, "v_copies" in match.bound]
    require(copied[0] == copied[1], "keys and values have different numbers of heads")
    if all(copied):
        are_copies(*(match[name] for name in ("keys", "values", "k_copies", "v_copies", "k_heads", "v_heads")))
    heads = match["k_heads"].shape[1] if all(copied) else k.shape[1]
    require(q.shape[1::2] == (heads, k.shape[3]), "the queries have other heads than the keys")
    require(match["v"].shape[3] == k.shape[3], "keys and values are of different size")
    require(q.shape[2] == k.shape[2], "what comes behind the past has other rows than the queries")


def spread(g: Graph, match: Match, bias: Tensor) -> Tensor:
    """What is added to the scores, with four axes, a row for every query and a number for every key."""
    q, masks = match["q"], given(match)
    missing = 4 - max(mask.rank for mask in masks)
    shaped = bias if not missing else g.unsqueeze(bias, list(range(missing)))
    if any(mask.shape and tuple(mask.shape[-2:]) == (q.shape[2], match["keys"].shape[2]) for mask in masks):
        return shaped
    rows, before = size_of(g, q, 2), size_of(g, match["past_key"], 2)
    return spread_to(g, shaped, rows, g.add(before, rows))


@rule(patterns=[capped], conditions=[is_a_cache, has_groups], differs={"non_finite": NON_FINITE})
def capped_attention_cache(g: Graph, match: Match, q: Tensor, k: Tensor, v: Tensor) -> Any:
    """Fuse an attention with capped scores behind a past into GroupQueryAttention.

    What: softmax(cap · tanh(scale · q·kᵀ / cap) + mask)·v, where keys and values are put behind those of a past.  The
    kernel takes a past before several rows only for a batch of one, so the model must have one row or a batch of one.
    Where it has not, only Attention can do this, from opset 23 on.
    Numerics: rounding only, for finite numbers.
    """
    past, dtype = (match["past_key"], match["past_value"]), dtype_of(match)
    require_steps(q.shape[0], q.shape[2], k.shape[3])
    require(all(x.dtype == dtype for x in (q, k, v, *past)), "queries, keys, values and mask differ in dtype")
    for mask in given(match):
        require_fits(mask, q)
    bias = bias_of(g, match, dtype)
    bias = None if bias is None else spread(g, match, bias)
    numbers = {"num_heads": q.shape[1], "kv_num_heads": k.shape[1], "scale": scale_of(match), "softcap": match["cap"]}
    ours, keys, values = (rows_of(g, x) for x in (q, k, v))
    made, *present = grouped_behind(g, ours, keys, values, past, bias, **numbers)
    return heads_of_rows(g, finished(g, match, made, dtype), q.shape[1], q.shape[3]), *present
