"""Rotary embeddings of heads that are moved to the front only for this."""

from typing import Any

from surgeon import Graph, Tensor, dims, rule
from ._fused_rotary import FusedRotary, ort_rotary


class RotaryHeads(FusedRotary):
    """Heads x after the rows, joined or not, that are moved to the front, rotated, and joined.

    wide, narrow: the dtypes to which they are cast before and after the rotation.
    """

    x: Tensor = dims("batch rows heads*columns", "batch rows heads columns")
    split: Tensor = dims("batch heads rows columns")
    y: Tensor = dims("batch rows heads*columns")
    heads: int
    columns: int
    wide: int | Any = None
    narrow: int | Any = None


def between_layouts(g: Graph, m: RotaryHeads) -> Tensor:
    """RotaryEmbedding of heads that follow the rows before and after it."""
    m.split = g.any_of(g.heads_first(g.reshaped(m.x)), g.heads_first(m.x))
    made = ort_rotary(g, m, g.optional(g.cast(m.split, to=m.wide)))
    m.y = g.joined_heads(g.optional(g.cast(made, to=m.narrow)))
    return m.y


@rule(patterns=[between_layouts])
def rotary_3d_input(g: Graph, m: RotaryHeads) -> Tensor:
    """Pass joined heads to RotaryEmbedding, if heads follow the rows before it and are joined after it.

    What: RotaryEmbedding also supports [batch, rows, heads · columns], so no heads are moved.  This also holds for half
    precision that is rotated in float32.
    Numerics: none.
    """
    joined = m.x if m.x.rank == 3 else g.reshape(m.x, [0, 0, m.heads * m.columns])
    made = ort_rotary(g, m, g.optional(g.cast(joined, to=m.wide)), num_heads=m.heads)
    return g.optional(g.cast(made, to=m.narrow))
