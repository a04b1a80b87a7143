"""Rotary embeddings of heads that are moved to the front for nothing else."""

from typing import Any

from surgeon import Graph, Tensor, dims, rule
from ._fused_rotary import FusedRotary, ort_rotary


class RotaryHeads(FusedRotary):
    """Heads x behind the rows, joined or not, that are moved to the front, turned by a rotary embedding, and joined.

    wide, narrow: the dtypes that they are cast to before and behind it.
    """

    x: Tensor = dims("batch rows heads*columns", "batch rows heads columns")
    split: Tensor = dims("batch heads rows columns")
    y: Tensor = dims("batch rows heads*columns")
    heads: int
    columns: int
    wide: int | Any = None
    narrow: int | Any = None


def between_layouts(g: Graph, m: RotaryHeads) -> Tensor:
    """RotaryEmbedding of heads that were behind the rows before, and are again behind it."""
    m.split = g.any_of(g.heads_first(g.reshaped(m.x)), g.heads_first(m.x))
    made = ort_rotary(g, m, g.optional(g.cast(m.split, to=m.wide)))
    m.y = g.joined_heads(g.optional(g.cast(made, to=m.narrow)))
    return m.y


@rule(patterns=[between_layouts])
def rotary_3d_input(g: Graph, m: RotaryHeads) -> Tensor:
    """Let RotaryEmbedding work on joined heads, where they are behind the rows before it and joined behind it.

    What: RotaryEmbedding takes [batch, rows, heads · columns] too, so that nothing is moved, half precision that is
    turned in float32 neither.
    Numerics: none.
    """
    joined = m.x if m.x.rank == 3 else g.reshape(m.x, [0, 0, m.heads * m.columns])
    made = ort_rotary(g, m, g.optional(g.cast(joined, to=m.wide)), num_heads=m.heads)
    return g.optional(g.cast(made, to=m.narrow))
