"""GroupQueryAttention that takes a past: neither are keys and values copied, nor put behind it by another node."""

from typing import Any

from surgeon import Graph, Tensor, require, rule
from ._attention import NON_FINITE
from ._grouped import grouped, require_steps
from ._heads import BehindPast, behind, copied, is_a_cache, maybe_joined, require_plain, rows_of


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
