"""Attention of decoders, with a cache and a mask that hides only later keys and those before a window."""

from typing import Any

from surgeon import Graph, Tensor, dims, require, rule
from ._decomposed_attention import AttentionScores, conditional_scores, masked_scores, weighted_values
from ._emit_group_query import emit_group_query_attention, require_head_size_multiple_of_8, softcap_and_sink
from ._emit_ort import DIFFERS, compute_dtype, total_scale
from ._kv_heads import CachedKeysValues, concat_past, have_equal_pasts, repeated_heads
from ._masks import MASKING_THRESHOLD

EXTREME = {**DIFFERS, "extreme": "scores above the largest number of the dtype give NaN, or hide later keys, elsewhere"}
UNUSED = {"qk_matmul_output_mode", "softmax_precision"}  # they concern an absent output, or are hints


class InSequence(AttentionScores, CachedKeysValues):
    """Attention over keys and values that are appended to a past.

    numbers: the attributes, if the attention is one node of ONNX. unseen: the rows that become zero because their keys
    are hidden.
    """

    q: Tensor = dims("batch readers rows columns")
    numbers: dict[str, Any] | Any = None
    unseen: Tensor | Any = None


def appended(g: Graph, m: InSequence) -> tuple[list[Tensor], list[Tensor]]:
    """Keys and values with their past, as an attention reads them and as the next step does."""
    whole = [concat_past(g, m.k), concat_past(g, m.v)]
    return [g.any_of(repeated_heads(g, x), x.x) for x in (m.k, m.v)], whole


def seen(g: Graph, m: InSequence, made: Tensor) -> Tensor:
    """The output, optionally with zeros in rows whose keys are all hidden."""
    return g.any_of(g.where(m.unseen, 0.0, made), made)


def decomposed(g: Graph, m: InSequence) -> tuple[Tensor, ...]:
    """Attention, and the keys and values with which the next step starts."""
    (own, others), whole = appended(g, m)
    turned = g.transpose(own, perm=[0, 1, 3, 2])
    cold = g.any_of(conditional_scores(g, m, turned), masked_scores(g, m, turned))
    return seen(g, m, weighted_values(g, m, cold, others)), *whole


def one_node(g: Graph, m: InSequence) -> tuple[Tensor, ...]:
    """The same as a node of ONNX."""
    (own, others), whole = appended(g, m)
    return seen(g, m, g.attention(m.q, own, others, m.mask, **m.numbers)), *whole


def has_groups(m: InSequence) -> None:
    """Require keys and values that serve equally many heads of queries, in the sizes that the op supports."""
    require(m.k.heads == m.v.heads and m.k.columns == m.v.columns, "keys and values have different heads or sizes")
    require(m.columns == m.k.columns, "queries and keys have different sizes")
    copies = {m.k.heads * m.k.number, m.v.heads * m.v.number}
    require(copies <= {m.readers, 1}, "the number of copied heads must equal the number of heads of the queries")
    require(m.readers % m.k.heads == 0, "the heads of queries must be a multiple of the heads of keys")
    require(m.rows == m.k.after == m.v.after, "the queries and the new keys must have the same number of rows")
    require_head_size_multiple_of_8(m.columns)
    dtype = m.q.dtype if m.numbers is not None else compute_dtype(m)
    alike = all(x.dtype == dtype for x in (m.q, m.k.new, m.v.new, m.k.past, m.v.past))
    require(dtype is not None and alike, "queries, keys and values must have the same dtype")
    require(m.unseen is None or m.unseen.is_always(False, m.rows, m.k.before), "a row without keys becomes zero")


def settings_of(g: Graph, m: InSequence) -> dict[str, Any]:
    """Return scale, cap and sinks."""
    if m.numbers is None:
        return {"scale": total_scale(m), **softcap_and_sink(g, m, m.readers)}
    others = {name for name, value in m.numbers.items() if value and name not in {"scale", "softcap", *UNUSED}}
    require(not others, f"unsupported attributes: {', '.join(sorted(others))}")
    return {"scale": m.numbers.get("scale", m.columns**-0.5), "softcap": m.numbers.get("softcap") or None}


@rule(patterns=[decomposed, one_node], conditions=[have_equal_pasts, has_groups], differs=EXTREME)
def sequence_attention(g: Graph, m: InSequence) -> Any:
    """Fuse the attention of a decoder with its cache and mask into GroupQueryAttention.

    What: attention over keys and values that are appended to a past, with a mask that hides later keys, and perhaps
    keys before a window.  surgeon finds that out by running the nodes of the mask, which may depend on an input of
    ones.  Each row of a batch has to be one sequence without padding: `--assume 'attention_mask: no padding'`.  The new
    node also handles padding on the right, as onnxruntime-genai writes it.  With a past, ONNX Runtime runs several rows
    only in a batch of one.
    Numerics: rounding only for finite numbers.
    """
    require(m.given, "the attention has no mask")
    require(m.low is None or m.low <= MASKING_THRESHOLD, f"{m.low} is too high to hide a score")
    window, ones = m.given[0].visible_keys(m.rows, m.k.before, shows=m.hidden is None, others=m.given[1:])
    made, *present = emit_group_query_attention(
        g,
        [g.joined_heads(x) for x in (m.q, m.k.new, m.v.new)],
        None,
        heads=m.readers,
        groups=m.k.heads,
        past=(m.k.past, m.v.past),
        ones=ones,
        causal=None,
        local_window_size=window,
        **settings_of(g, m),
    )
    return g.split_heads(made, m.readers, m.columns), *present
