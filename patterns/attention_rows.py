"""Attention of heads that are moved to the front only for it."""

from typing import Any

from surgeon import Captures, Graph, Tensor, dims, rule
from ._layouts import ABSENT, HEADS_FIRST
from ._scores import without_nan

TENSORRT = "TensorRT takes queries, keys and values with four axes only"


class Moved(Captures):
    """Heads behind the rows, which are moved to the front, and a rotary embedding that may turn them there."""

    x: Tensor = dims("batch rows heads columns")
    cos: Tensor = ABSENT
    sin: Tensor = ABSENT
    neighbours: int = 0
    part: int = 0
    number: int = 0
    heads: int
    columns: int


class OfMoved(Captures):
    """Attention of such heads.  guarded: what it makes, if NaN becomes 0."""

    q: Moved
    k: Moved
    v: Moved
    mask: Tensor | None = None
    guarded: Tensor | None = None
    attributes: dict[str, Any]


def moved(g: Graph, m: Moved) -> Tensor:
    """The heads in front, perhaps turned."""
    heads = g.transpose(m.x, perm=HEADS_FIRST)
    numbers = {"interleaved": m.neighbours, "rotary_embedding_dim": m.part}
    turned = (g.rotary_embedding(heads, m.cos, m.sin, **numbers, **more) for more in ({}, {"num_heads": m.number}))
    return g.any_of(heads, *turned)


def of_moved_heads(g: Graph, m: OfMoved) -> Tensor:
    """Attention of heads that are moved to the front, and back behind it."""
    values = g.transpose(m.v.x, perm=HEADS_FIRST)
    made = m.guarded = g.attention(moved(g, m.q), moved(g, m.k), values, m.mask, **m.attributes)
    return g.transpose(g.any_of(without_nan(g, m.guarded), made), perm=HEADS_FIRST)


def rows_of(g: Graph, m: Moved) -> Tensor:
    """[batch, rows, heads · columns], turned by the rotary embedding that was found."""
    rows = g.reshape(m.x, [0, 0, m.heads * m.columns])
    if m.cos is None:
        return rows
    part: dict[str, Any] = {"rotary_embedding_dim": m.part or None}
    return g.rotary_embedding(rows, m.cos, m.sin, interleaved=m.neighbours, num_heads=m.heads, **part)


@rule(patterns=[of_moved_heads], target="onnx", opset=23, unsuited={"tensorrt": TENSORRT})
def attention_of_rows(g: Graph, m: OfMoved) -> Tensor:
    """Let Attention, and the rotary embeddings in front of it, take heads beside each other, where they come so.

    What: Attention and RotaryEmbedding take [batch, rows, heads · columns] too, so that no heads are moved to the front
    and back.
    Numerics: none.
    """
    numbers = {"q_num_heads": m.q.heads, "kv_num_heads": m.k.heads}
    ours, keys, values = (rows_of(g, part) for part in (m.q, m.k, m.v))
    made = g.attention(ours, keys, values, m.mask, **{**m.attributes, **numbers})
    return g.reshape(made if m.guarded is None else without_nan(g, made), [0, 0, m.q.heads, m.v.columns])
