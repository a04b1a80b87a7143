"""Layouts of attention ops: heads joined in one axis or in separate axes, as neighbouring nodes have them."""

from typing import Any

from surgeon import Captures, Graph, Tensor, dims, require, rule
from ._kv_heads import AttentionOverHeads

TENSORRT = "TensorRT supports only queries, keys and values with four axes"


def of_joined_heads(g: Graph, m: AttentionOverHeads) -> Any:
    """MultiHeadAttention with keys and values that are joined from heads."""
    m.k.joined, m.v.joined = g.joined_heads(m.k.x), g.joined_heads(m.v.x)
    return g.ms_multi_head_attention(m.q, m.k.joined, m.v.joined, attention_bias=m.bias, **m.attributes)


@rule(patterns=[of_joined_heads])
def attention_4d_kv(g: Graph, m: AttentionOverHeads) -> Any:
    """Pass keys and values to MultiHeadAttention as heads, if a cache or a rotary embedding produces them as heads.

    What: MultiHeadAttention also supports keys and values of [batch, heads, rows, columns], so no data is moved.
    Numerics: none.
    """
    own = m.attributes["num_heads"]
    require(m.k.heads == own, f"the attention has {own} heads, but the keys are joined from another number of heads")
    require(
        m.k.columns == m.v.columns,
        "keys and values have different sizes, which MultiHeadAttention supports only for joined heads",
    )
    return g.ms_multi_head_attention(m.q, m.k.x, m.v.x, attention_bias=m.bias, **m.attributes)


class MovedHeads(Captures):
    """Heads after the rows, which are moved to the front, with an optional rotary embedding there."""

    x: Tensor = dims("batch rows heads columns")
    cos: Tensor | Any = None
    sin: Tensor | Any = None
    attributes: dict[str, Any] | Any = None
    heads: int
    columns: int


class OfMoved(Captures):
    """Attention over such heads. guarded: its output if NaN becomes 0. back: the Transpose of the output heads."""

    q: MovedHeads
    k: MovedHeads
    v: MovedHeads
    mask: Tensor | Any = None
    guarded: Tensor | Any = None
    back: list[int]
    attributes: dict[str, Any]


def turned(g: Graph, m: MovedHeads, x: Tensor, **more: int) -> Tensor:
    """The heads x, optionally rotated."""
    return g.any_of(g.rotary_embedding(x, m.cos, m.sin, **{**(m.attributes or {}), **more}), x)


def of_moved_heads(g: Graph, m: OfMoved) -> Tensor:
    """Attention over heads that are moved to the front, and back after it."""
    q, k = (turned(g, part, g.heads_first(part.x)) for part in (m.q, m.k))
    made = m.guarded = g.attention(q, k, g.heads_first(m.v.x), m.mask, **m.attributes)
    return g.transpose(g.any_of(g.nan_to_zero(m.guarded), made), perm=m.back)


@rule(patterns=[of_moved_heads], target="onnx", opset=23, unsuited={"tensorrt": TENSORRT})
def attention_3d_inputs(g: Graph, m: OfMoved) -> Tensor:
    """Pass joined heads to Attention, and to the rotary embeddings before it, if they come joined.

    What: Attention and RotaryEmbedding also support [batch, rows, heads · columns], so heads need not be moved to the
    front and back.
    Numerics: none.
    """
    require(m.back in ([0, 2, 1, 3], [2, 0, 1, 3]), "the output heads must be moved after the rows")
    numbers = {"q_num_heads": m.q.heads, "kv_num_heads": m.k.heads}
    parts = ((part, g.reshape(part.x, [0, 0, part.heads * part.columns])) for part in (m.q, m.k, m.v))
    ours, keys, values = (turned(g, part, rows, num_heads=part.heads) for part, rows in parts)
    made = g.attention(ours, keys, values, m.mask, **{**m.attributes, **numbers})
    heads = g.reshape(made if m.guarded is None else g.nan_to_zero(made), [0, 0, m.q.heads, m.v.columns])
    return heads if m.back[0] == 0 else g.transpose(heads, perm=[1, 0, 2, 3])
