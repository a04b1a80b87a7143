"""GroupQueryAttention that takes a past: neither are keys and values copied, nor put behind it by another node."""

from typing import Any

from surgeon import Graph, Match, Tensor, require, rule
from ._attention import NON_FINITE
from ._cache import behind, is_a_cache, is_plain, maybe_joined, rows_of
from ._grouped import grouped_behind, require_steps
from .grouped_query_attention import are_copies, repeated


def of_copies(
    g: Graph,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past_key: Tensor,
    past_value: Tensor,
    bias: Tensor | None = None,
    **attributes: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """MultiHeadAttention over copies of keys and values, and what these are copies of: the next step starts with it."""
    keys, values = behind(g, past_key, k, "keys"), behind(g, past_value, v, "values")
    own, others = (maybe_joined(g, repeated(g, x, name)) for x, name in ((keys, "k"), (values, "v")))
    return g.ms_multi_head_attention(q, own, others, None, None, bias, **attributes), keys, values


def are_groups(match: Match) -> None:
    """The copies are made of heads, as many of them as the attention has."""
    are_copies(*(match[name] for name in ("keys", "values", "k_copies", "v_copies", "k_heads", "v_heads")))
    heads = match["k_heads"].shape[1]
    require(match["attributes"]["num_heads"] == heads, "the copies are not the heads of the attention")


@rule(
    patterns=[of_copies],
    conditions=[is_a_cache, is_plain, are_groups],
    differs={"non_finite": NON_FINITE},
)
def grouped_attention_cache(
    g: Graph,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past_key: Tensor,
    past_value: Tensor,
    attributes: dict[str, Any],
    bias: Tensor | None = None,
) -> Any:
    """Let an attention share keys and values among heads, and put them behind a past: GroupQueryAttention.

    What: attention in which each head of keys and values serves several of queries in a row.  The op takes the past,
    and gives what the next step starts with.  It takes a past before several rows only for a batch of one, so the
    model must have one row or a batch of one.  In no group, as `grouped_rows` and `attention_cache` have no such limit,
    and are faster on a CPU; name it before them where GroupQueryAttention itself is wanted.
    Numerics: rounding only, for finite numbers.
    """
    require(q.rank == 3, "the queries have other axes than batch, row, column")
    require(q.shape[1] == k.shape[2], "what comes behind the past has other rows than the queries")
    require_steps(q.shape[0], q.shape[1], k.shape[3])
    numbers = {"num_heads": attributes["num_heads"], "kv_num_heads": k.shape[1]}
    numbers |= {name: number for name, number in attributes.items() if name == "scale"}
    return grouped_behind(g, q, rows_of(g, k), rows_of(g, v), (past_key, past_value), bias, **numbers)
