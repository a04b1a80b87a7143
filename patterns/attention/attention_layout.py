"""Layouts of attention ops: heads beside each other, or each on its own, as their neighbours have them."""

from typing import Any

from surgeon import Captures, Graph, Tensor, dims, require, rule
from ._kv_heads import AttentionOverHeads

TENSORRT = "TensorRT takes queries, keys and values with four axes only"


def of_joined_heads(g: Graph, m: AttentionOverHeads) -> Any:
    """MultiHeadAttention whose keys and values come as heads and are joined for it."""
    m.k.joined, m.v.joined = g.joined_heads(m.k.x), g.joined_heads(m.v.x)
    return g.ms_multi_head_attention(m.q, m.k.joined, m.v.joined, attention_bias=m.bias, **m.attributes)


@rule(patterns=[of_joined_heads])
def attention_4d_kv(g: Graph, m: AttentionOverHeads) -> Any:
    """Give MultiHeadAttention its keys and values as heads, where they come so: from a cache or a rotary embedding.

    What: MultiHeadAttention takes keys and values of [batch, heads, rows, columns] too, so that nothing is moved.
    Numerics: none.
    """
    own = m.attributes["num_heads"]
    require(m.k.heads == own, f"the attention has {own} heads, and the keys are joined from others")
    require(m.k.columns == m.v.columns, "keys and values are of different size, which it takes joined alone")
    return g.ms_multi_head_attention(m.q, m.k.x, m.v.x, attention_bias=m.bias, **m.attributes)


class MovedHeads(Captures):
    """Heads behind the rows, which are moved to the front, and a rotary embedding that may turn them there."""

    x: Tensor = dims("batch rows heads columns")
    cos: Tensor | Any = None
    sin: Tensor | Any = None
    attributes: dict[str, Any] | Any = None
    heads: int
    columns: int


class OfMoved(Captures):
    """Attention of such heads.  guarded: what it makes, if NaN becomes 0.  back: how its heads are moved behind it."""

    q: MovedHeads
    k: MovedHeads
    v: MovedHeads
    mask: Tensor | Any = None
    guarded: Tensor | Any = None
    back: list[int]
    attributes: dict[str, Any]


def turned(g: Graph, m: MovedHeads, x: Tensor, **more: int) -> Tensor:
    """The heads as x, perhaps turned."""
    return g.any_of(g.rotary_embedding(x, m.cos, m.sin, **{**(m.attributes or {}), **more}), x)


def of_moved_heads(g: Graph, m: OfMoved) -> Tensor:
    """Attention of heads that are moved to the front, and back behind it."""
    q, k = (turned(g, part, g.heads_first(part.x)) for part in (m.q, m.k))
    made = m.guarded = g.attention(q, k, g.heads_first(m.v.x), m.mask, **m.attributes)
    return g.transpose(g.any_of(g.nan_to_zero(m.guarded), made), perm=m.back)


@rule(patterns=[of_moved_heads], target="onnx", opset=23, unsuited={"tensorrt": TENSORRT})
def attention_3d_inputs(g: Graph, m: OfMoved) -> Tensor:
    """Let Attention, and the rotary embeddings in front of it, take heads beside each other, where they come so.

    What: Attention and RotaryEmbedding take [batch, rows, heads · columns] too, so that no heads are moved to the front
    and back.
    Numerics: none.
    """
    require(m.back in ([0, 2, 1, 3], [2, 0, 1, 3]), "the heads are not moved behind the rows")
    numbers = {"q_num_heads": m.q.heads, "kv_num_heads": m.k.heads}
    parts = ((part, g.reshape(part.x, [0, 0, part.heads * part.columns])) for part in (m.q, m.k, m.v))
    ours, keys, values = (turned(g, part, rows, num_heads=part.heads) for part, rows in parts)
    made = g.attention(ours, keys, values, m.mask, **{**m.attributes, **numbers})
    heads = g.reshape(made if m.guarded is None else g.nan_to_zero(made), [0, 0, m.q.heads, m.v.columns])
    return heads if m.back[0] == 0 else g.transpose(heads, perm=[1, 0, 2, 3])
