"""Rotary position embedding of the first numbers of each head.  The other numbers stay unchanged."""

from typing import Any

from surgeon import Graph, Tensor, dims, require, rule
from ._fused_rotary import FusedRotary, onnx_rotary, ort_rotary


class Partial(FusedRotary):
    """Heads, their rotated part and the rest.

    joined: the parts of heads after the rows, joined in one axis.
    """

    x: Tensor = dims("batch _ _ columns")
    part: Tensor = dims("batch _ _ _")
    rest: Tensor = dims("batch _ _ _")
    joined: Tensor | Any = None
    columns: int


def of_part(g: Graph, m: Partial) -> Tensor:
    """RotaryEmbedding of a part of each head.  Heads after the rows are joined for it and split again."""
    m.part, m.rest = g.parts(m.x, 2, -1)
    m.joined = g.reshaped(m.part)
    behind_rows = g.reshaped(ort_rotary(g, m, m.joined))
    return g.concat(g.any_of(ort_rotary(g, m, m.part), onnx_rotary(g, m, m.part), behind_rows), m.rest, axis=-1)


@rule(patterns=[of_part], target="any")
def rotary_partial(g: Graph, m: Partial) -> Tensor:
    """Pass whole heads to RotaryEmbedding, which rotates only their first numbers.

    What: concat(rotary(x[..., :n]), x[..., n:]) over the last axis of [batch, head, row, column].  The heads may also
    follow the rows, and the op of ONNX Runtime reads them joined.
    Numerics: none.
    """
    size = m.part.shape[3]
    require(not m.attributes.get("rotary_embedding_dim"), "it already rotates only a part of its input")
    if m.standard is not None:
        return g.rotary_embedding(m.x, m.cos, m.sin, m.places, **{**m.attributes, "rotary_embedding_dim": size})
    heads = m.x.shape[1 if m.joined is None else 2]
    require(isinstance(heads, int), "the number of heads is unknown")
    settings = {"rotary_embedding_dim": size, "num_heads": heads}
    if m.joined is None:
        return ort_rotary(g, m, m.x, **settings)
    is_joined = m.attributes.get("num_heads") == heads and m.joined.shape == (*m.part.shape[:2], heads * size)
    require(is_joined, "the heads are joined in another way")
    made = ort_rotary(g, m, g.reshape(m.x, [0, 0, heads * m.columns]), **settings)
    return g.reshape(made, [0, 0, heads, m.columns])
