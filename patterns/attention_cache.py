"""Attention that takes a past: keys and values are put behind it by the op, which also gives the next step's."""

from typing import Any

from surgeon import Graph, Tensor, require, rule
from ._attention import NON_FINITE
from ._grouped import grouped, require_steps
from ._heads import BehindPast, behind, copied, is_a_cache, maybe_joined, require_plain, rows_of


class StandardBehindPast(BehindPast):
    """The same as ONNX's own Attention."""


def with_a_past(g: Graph, m: BehindPast) -> tuple[Tensor, ...]:
    """MultiHeadAttention, and the keys and values that it reads, which the next step starts with."""
    keys, values = behind(g, m.k), behind(g, m.v)
    own, others = maybe_joined(g, keys), maybe_joined(g, values)
    return g.ms_multi_head_attention(m.q, own, others, attention_bias=m.bias, **m.attributes), keys, values


def standard_with_a_past(g: Graph, m: StandardBehindPast) -> tuple[Tensor, ...]:
    """Attention, and the keys and values that it reads, which the next step starts with."""
    keys, values = behind(g, m.k), behind(g, m.v)
    return g.attention(m.q, keys, values, m.bias, **m.attributes), keys, values


@rule(patterns=[with_a_past, standard_with_a_past], conditions=[is_a_cache], target="any")
def attention_cache(g: Graph, m: BehindPast) -> Any:
    """Let an attention put keys and values behind those of a past, and give them for the next step.

    What: MultiHeadAttention and Attention take the past as `past_key` and `past_value`; their outputs `present_key` and
    `present_value` are what was concatenated before.
    Numerics: rounding only.
    """
    past: dict[str, Any] = {"past_key": m.k.past, "past_value": m.v.past, "outputs": 3}
    if isinstance(m, StandardBehindPast):
        require(m.q.rank == 4, "the queries have other axes than batch, head, row, column")
        require(not m.attributes.get("is_causal"), "with a past, is_causal would count rows from its end")
        return g.attention(m.q, m.k.new, m.v.new, m.bias, **past, **m.attributes)
    require_plain(m)
    require(m.attributes["num_heads"] == m.k.heads, "the past has other heads than the attention")
    keys, values = rows_of(g, m.k.new), rows_of(g, m.v.new)
    return g.ms_multi_head_attention(m.q, keys, values, attention_bias=m.bias, **past, **m.attributes)


def of_copies(g: Graph, m: BehindPast) -> tuple[Tensor, ...]:
    """MultiHeadAttention over copies of keys and values, and what these are copies of: the next step starts with it."""
    keys, values = behind(g, m.k), behind(g, m.v)
    own, others = (maybe_joined(g, copied(g, x)) for x in (m.k, m.v))
    return g.ms_multi_head_attention(m.q, own, others, attention_bias=m.bias, **m.attributes), keys, values


@rule(patterns=[of_copies], conditions=[is_a_cache, require_plain], differs={"non_finite": NON_FINITE})
def grouped_attention_cache(g: Graph, m: BehindPast) -> Any:
    """Let an attention share keys and values among heads, and put them behind a past: GroupQueryAttention.

    What: attention in which each head of keys and values serves several of queries in a row.  The op takes the past,
    and gives what the next step starts with.  It takes a past before several rows only for a batch of one, so the
    model must have one row or a batch of one.  In no group, as `grouped_rows` and `attention_cache` have no such limit,
    and are faster on a CPU; name it before them where GroupQueryAttention itself is wanted.
    Numerics: rounding only, for finite numbers.
    """
    heads = m.attributes["num_heads"]
    require(heads == m.k.heads * m.k.number, "the copies are not the heads of the attention")
    require(m.q.rank == 3, "the queries have other axes than batch, row, column")
    require(m.q.shape[1] == m.k.after, "what comes behind the past has other rows than the queries")
    require_steps(m.q.shape[0], m.k.after, m.k.columns)
    parts = (m.q, rows_of(g, m.k.new), rows_of(g, m.v.new))
    scale = {name: number for name, number in m.attributes.items() if name == "scale"}
    return grouped(g, parts, m.bias, heads, m.k.heads, (m.k.past, m.v.past), **scale)
