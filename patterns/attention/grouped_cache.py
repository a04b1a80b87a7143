"""GroupQueryAttention that takes a past: of scores that are capped (Gemma 2, arXiv:2408.00118), and of copies."""

from typing import Any

from surgeon import Graph, Tensor, dims, require, rule
from ._decomposed_attention import Scores, masked, weighted
from ._emit_group_query import cap_of, grouped, require_steps
from ._emit_ort import DIFFERS, dtype_of, finished, scale_of
from ._kv_heads import BehindPast, Caches, are_caches, behind, copied, maybe_joined, require_plain
from ._masks import bias_of, fitted


class Capped(Scores, Caches):
    """softmax(cap · tanh(scale · q·kᵀ / cap) + mask)·v, where keys and values are behind a past."""

    q: Tensor = dims("batch readers rows columns")


def capped(g: Graph, m: Capped) -> tuple[Tensor, ...]:
    """Attention of maybe capped scores, and the keys and values, which the next step starts with."""
    keys, values = behind(g, m.k), behind(g, m.v)
    own, others = (g.any_of(copied(g, x), x.x) for x in (m.k, m.v))
    return weighted(g, m, masked(g, m, g.transpose(own, perm=[0, 1, 3, 2])), others), keys, values


def has_groups(m: Capped) -> None:
    """Keys and values of the heads of the queries, or of copies that make as many."""
    require(m.cap is not None or m.sink is not None, "the scores are not capped, so another op takes the past")
    require(m.k.number == m.v.number, "keys and values have different numbers of heads")
    alike = (m.readers, m.columns) == (m.k.heads * m.k.number, m.k.columns)
    require(alike, "the queries have other heads than the keys")
    require(m.k.columns == m.v.columns, "keys and values are of different size")
    require(m.rows == m.k.after, "what comes behind the past has other rows than the queries")


@rule(patterns=[capped], conditions=[are_caches, has_groups], differs=DIFFERS)
def capped_attention_cache(g: Graph, m: Capped) -> Any:
    """Fuse an attention with capped scores behind a past into GroupQueryAttention.

    What: softmax(cap · tanh(scale · q·kᵀ / cap) + mask)·v, where keys and values are put behind those of a past.  The
    kernel takes a past before several rows only for a batch of one, so the model must have one row or a batch of one.
    Where it has not, only Attention can do this, from opset 23 on.
    Numerics: rounding only, for finite numbers.
    """
    parts, past, dtype = (m.q, m.k.new, m.v.new), (m.k.past, m.v.past), dtype_of(m)
    require_steps(m.q.shape[0], m.rows, m.columns)
    require(all(x.dtype == dtype for x in (*parts, *past)), "queries, keys, values and mask differ in dtype")
    added, keys = bias_of(g, m, dtype), m.k.x.shape[2]
    bias = fitted(g, m, added, keys, lambda: g.add(g.size_of(m.k.past, 2), g.size_of(m.q, 2)))
    rows = [g.joined_heads(x) for x in parts]
    made, *present = grouped(g, rows, bias, m.readers, m.k.heads, past, scale=scale_of(m), **cap_of(g, m, m.readers))
    return g.split_heads(finished(g, m, made), m.readers, m.columns), *present


def of_copies(g: Graph, m: BehindPast) -> tuple[Tensor, ...]:
    """MultiHeadAttention over copies of keys and values, and what these are copies of: the next step starts with it."""
    keys, values = behind(g, m.k), behind(g, m.v)
    own, others = (maybe_joined(g, copied(g, x)) for x in (m.k, m.v))
    return g.ms_multi_head_attention(m.q, own, others, attention_bias=m.bias, **m.attributes), keys, values


@rule(patterns=[of_copies], conditions=[are_caches, require_plain], differs=DIFFERS)
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
    parts = (m.q, g.joined_heads(m.k.new), g.joined_heads(m.v.new))
    scale = {name: number for name, number in m.attributes.items() if name == "scale"}
    return grouped(g, parts, m.bias, heads, m.k.heads, (m.k.past, m.v.past), **scale)
