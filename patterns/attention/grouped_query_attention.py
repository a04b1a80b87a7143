"""Grouped-query attention (Ainslie et al., arXiv:2305.13245): several query heads share a head of keys and values."""

from typing import Any

from surgeon import Graph, Tensor, require, rule
from ._decompose_grouped_query import grouped_in_parts
from ._emit_group_query import emit_group_query_attention, require_equal_lengths
from ._emit_ort import DIFFERS
from ._fused_grouped_query import Grouped, grouped_node, grouped_node_alone
from ._kv_heads import (
    LAYOUT_INDEPENDENT_ATTRIBUTES,
    AttentionOverHeads,
    attention_over_repeated_kv,
    repeated_heads,
    require_copies_of_heads,
)

OURS = ("kv_num_heads", "softcap", "causal")  # attributes of GroupQueryAttention that the new node keeps


def grouped_by_copies(g: Graph, m: AttentionOverHeads) -> Any:
    """GroupQueryAttention, as another rule wrote it, over copies of keys and values.  It also reads their shape."""
    keys, values = (g.maybe_narrower(g.joined_heads(repeated_heads(g, x))) for x in (m.k, m.v))
    more: dict[str, Any] = {"attention_bias": m.bias, "outputs": 3, **m.attributes}
    counts: dict[str, Any] = {"seqlens_k": g.any_tensor(), "total_sequence_length": g.any_tensor()}
    return g.ms_group_query_attention(m.q, g.shared(keys), values, **counts, **more)[0]


def standard_by_copies(g: Graph, m: AttentionOverHeads) -> Any:
    """Attention over copies of keys and values."""
    return g.attention(m.q, repeated_heads(g, m.k), repeated_heads(g, m.v), m.bias, **m.attributes)


@rule(
    patterns=[attention_over_repeated_kv, grouped_by_copies],
    differs=DIFFERS,
    form_patterns=[grouped_node_alone, grouped_node],
)
def grouped_query_attention(g: Graph, m: AttentionOverHeads) -> Tensor:
    """Share keys and values among heads of an attention instead of copying them, with GroupQueryAttention.

    What: attention in which each head of keys and values serves several consecutive heads of queries.
    Numerics: rounding only for finite numbers.  With a bias, ONNX Runtime runs it on CUDA only in releases from the
    second half of 2026 on (microsoft/onnxruntime#29525).
    """
    return without_copies(g, m, m.attributes.get("causal", 1) if "kv_num_heads" in m.attributes else 0)


@grouped_query_attention.on("decomposed")
def _(g: Graph, m: Grouped) -> list[Tensor]:
    return grouped_in_parts(g, m)


@rule(
    patterns=[attention_over_repeated_kv],
    differs={**DIFFERS, "extreme": "a score is hidden too if the number for the future is small compared with it"},
)
def grouped_causal_attention(g: Graph, m: AttentionOverHeads) -> Tensor:
    """Share keys and values among heads of a causal attention instead of copying them, with GroupQueryAttention.

    What: as `grouped_query_attention`, for an attention with a causal attribute.
    Numerics: rounding only for finite numbers.
    """
    require(m.attributes.get("unidirectional") == 1, "unidirectional must be 1, so that the attention is causal")
    return without_copies(g, m, 1, "unidirectional")


@rule(patterns=[standard_by_copies], target="onnx", opset=23)
def grouped_onnx_attention(g: Graph, m: AttentionOverHeads) -> Any:
    """Share keys and values among heads of Attention instead of copying them.

    What: Attention supports fewer heads of keys and values than of queries.  Each serves several consecutive heads of
    queries.
    Numerics: none.
    """
    require(m.q.shape is not None, "the number of heads of the queries is unknown")
    require_copies_of_heads(m, m.q.shape[1])
    return g.attention(m.q, m.k.x, m.v.x, m.bias, **m.attributes)


def without_copies(g: Graph, m: AttentionOverHeads, causal: int, *said: str) -> Tensor:
    """Write GroupQueryAttention over the originals of the copies. said: attributes that `causal` replaces."""
    heads = m.attributes["num_heads"]
    others = set(m.attributes) - {*LAYOUT_INDEPENDENT_ATTRIBUTES, *OURS, *said}
    require(not others, f"GroupQueryAttention does not support {', '.join(sorted(others))}")
    require(m.k.columns == m.v.columns, "keys and values have different sizes")
    require_copies_of_heads(m, heads)
    require_equal_lengths(m.q.shape and m.q.shape[1], m.k.x.shape[2], m.k.columns)
    parts = (m.q, *(g.in_dtype(g.joined_heads(x), m.q.dtype) for x in (m.k.x, m.v.x)))
    numbers = {name: m.attributes[name] for name in ("scale", "softcap") if name in m.attributes}
    made: Tensor = emit_group_query_attention(
        g, parts, m.bias, heads=heads, groups=m.k.heads, causal=causal, **numbers
    )[0]
    return made


def repeated_bias(g: Graph, bias: Tensor, heads: int, groups: int) -> Tensor:
    """Return the bias of the scores for rows of all heads of a group, one head after the other."""
    require(bias.rank == 4, "the mask must have the axes batch, head, row, column")
    require(bias.shape[1] in (1, heads), f"the mask has {bias.shape[1]} heads, but the queries have {heads}")
    if bias.shape[1] == 1:
        return g.tile(bias, [1, 1, heads // groups, 1])
    return g.reshape(bias, [0, groups, -1, 0])


@rule(patterns=[attention_over_repeated_kv], differs=DIFFERS)
def query_heads_as_rows(g: Graph, m: AttentionOverHeads) -> Tensor:
    """Turn heads of queries that share keys and values into rows of one head, so that no keys or values are copied.

    What: MultiHeadAttention over copies of keys and values becomes one over the originals. q of [batch, rows, groups ·
    copies · columns] is read as [batch, copies · rows, groups · columns].  The result does not change, because each row
    attends independently of the others.
    Numerics: rounding only for finite numbers.
    """
    others = m.attributes.keys() - LAYOUT_INDEPENDENT_ATTRIBUTES
    require(not others, f"these attributes have another meaning for such rows: {', '.join(sorted(others))}")
    heads, groups, copies = m.attributes["num_heads"], m.k.heads, m.k.number
    require_copies_of_heads(m, heads)
    columns, width = m.k.columns, m.v.columns
    require(isinstance(columns, int) and isinstance(width, int), "the size of a head is unknown")
    require(
        m.q.shape is not None and m.q.shape[2:] == (heads * columns,),
        "the heads of the queries must be joined one after the other",
    )
    rows = m.q.shape[1] if isinstance(m.q.shape[1], int) else -1
    split = g.transpose(g.reshape(m.q, [0, 0, groups, copies, columns]), perm=[0, 3, 1, 2, 4])
    ours = g.reshape(split, [0, rows * copies if rows >= 0 else -1, groups * columns])
    keys, values = (g.in_dtype(g.joined_heads(x), m.q.dtype) for x in (m.k.x, m.v.x))
    bias = None if m.bias is None else repeated_bias(g, m.bias, heads, groups)
    numbers = {**m.attributes, "num_heads": groups}
    made = g.ms_multi_head_attention(ours, keys, values, attention_bias=bias, **numbers)
    back = g.transpose(g.reshape(made, [0, copies, rows, groups, width]), perm=[0, 2, 3, 1, 4])
    return g.reshape(back, [0, 0, heads * width])
