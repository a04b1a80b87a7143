"""Layouts of attention ops: heads beside each other, or each on its own, as their neighbours have them."""

from typing import Any

from surgeon import Captures, Graph, Tensor, dims, require, rule
from ._heads import OverHeads
from ._layouts import HEADS_FIRST, joined, reshaped


def of_joined_heads(g: Graph, m: OverHeads) -> Any:
    """MultiHeadAttention whose keys and values come as heads and are joined for it."""
    m.k.joined, m.v.joined = joined(g, m.k.x), joined(g, m.v.x)
    return g.ms_multi_head_attention(m.q, m.k.joined, m.v.joined, attention_bias=m.bias, **m.attributes)


@rule(patterns=[of_joined_heads])
def attention_of_heads(g: Graph, m: OverHeads) -> Any:
    """Give MultiHeadAttention its keys and values as heads, where they come so: from a cache or a rotary embedding.

    What: MultiHeadAttention takes keys and values of [batch, heads, rows, columns] too, so that nothing is moved.
    Numerics: none.
    """
    own = m.attributes["num_heads"]
    require(m.k.heads == own, f"the attention has {own} heads, and the keys are joined from others")
    require(m.k.columns == m.v.columns, "keys and values are of different size, which it takes joined alone")
    return g.ms_multi_head_attention(m.q, m.k.x, m.v.x, attention_bias=m.bias, **m.attributes)


class Turned(Captures):
    """Joined heads x that are split, turned by a rotary embedding, and joined again."""

    x: Tensor = dims("batch rows heads*columns")
    split: Tensor = dims("batch heads rows columns")
    y: Tensor = dims("batch rows heads*columns")
    places: Tensor
    cos: Tensor
    sin: Tensor
    attributes: dict[str, Any]
    heads: int
    columns: int


def between_layouts(g: Graph, m: Turned) -> Tensor:
    """RotaryEmbedding of heads that were joined before, and are again behind it."""
    m.split = g.transpose(reshaped(g, m.x), perm=HEADS_FIRST)
    m.y = joined(g, g.ms_rotary_embedding(m.split, m.places, m.cos, m.sin, **m.attributes))
    return m.y


@rule(patterns=[between_layouts])
def rotary_of_rows(g: Graph, m: Turned) -> Tensor:
    """Let RotaryEmbedding work on joined heads, where they are joined before and behind it.

    What: RotaryEmbedding takes [batch, rows, heads · columns] too, so that nothing is moved.
    Numerics: none.
    """
    return g.ms_rotary_embedding(m.x, m.places, m.cos, m.sin, **{**m.attributes, "num_heads": m.heads})
