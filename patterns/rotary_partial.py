"""Rotary position embedding of the first numbers of each head, behind which the others stay as they are."""

from surgeon import Graph, Tensor, dims, require, rule
from ._layouts import ABSENT, reshaped
from ._rotary_nodes import Turning, by_onnx, by_runtime


class Partial(Turning):
    """Heads, the part of them that is turned and the rest, and where that begins if it is cut out.

    joined: the parts of heads behind rows as one axis.
    """

    x: Tensor = dims("batch _ _ columns")
    part: Tensor = dims("batch _ _ _")
    rest: Tensor = dims("batch _ _ _")
    begin: Tensor = ABSENT
    joined: Tensor = ABSENT
    columns: int


def parts(g: Graph, m: Partial) -> tuple[Tensor, Tensor]:
    """The first numbers of the last axis, and the others."""
    splits = g.split(m.x, g.any_tensor(), axis=-1, outputs=2), g.split(m.x, axis=-1, num_outputs=2, outputs=2)
    m.begin, end = g.any_tensor(), g.any_tensor()
    m.part = g.any_of(*(g.slice(m.x, [0], end, [-1], step) for step in (None, [1])), *(split[0] for split in splits))
    rest = (g.slice(m.x, m.begin, g.any_tensor(), [-1], step) for step in (None, [1]))
    m.rest = g.any_of(*rest, *(split[1] for split in splits))
    return m.part, m.rest


def of_heads(g: Graph, m: Partial) -> Tensor:
    """RotaryEmbedding of a part of [batch, head, row, column]."""
    part, rest = parts(g, m)
    return g.concat(g.any_of(by_runtime(g, m, part), by_onnx(g, m, part)), rest, axis=-1)


def behind_rows(g: Graph, m: Partial) -> Tensor:
    """RotaryEmbedding of a part of [batch, row, head, column], whose heads are joined for it and split again."""
    part, rest = parts(g, m)
    m.joined = reshaped(g, part)
    return g.concat(reshaped(g, by_runtime(g, m, m.joined)), rest, axis=-1)


@rule(patterns=[of_heads, behind_rows], target="any")
def rotary_partial(g: Graph, m: Partial) -> Tensor:
    """Let RotaryEmbedding take whole heads, of which it turns the first numbers, and leave the others itself.

    What: concat(rotary(x[..., :n]), x[..., n:]) over the last axis of [batch, head, row, column], or with the heads
    behind the rows, which ONNX Runtime's op takes joined.
    Numerics: none.
    """
    size, others = m.part.shape[3], m.rest.shape[3]
    begins = m.begin is None or m.begin.elements in ([size], [-others])
    require(size + others == m.columns and begins, "the parts are not all of a head")
    require(not m.attributes.get("rotary_embedding_dim"), "of the first part, it turns a part again")
    if m.standard is not None:
        return g.rotary_embedding(m.x, m.cos, m.sin, m.places, **{**m.attributes, "rotary_embedding_dim": size})
    heads = m.x.shape[1 if m.joined is None else 2]
    require(isinstance(heads, int), "the number of heads is unknown")
    told = {"rotary_embedding_dim": size, "num_heads": heads}
    if m.joined is None:
        return by_runtime(g, m, m.x, **told)
    is_joined = m.attributes.get("num_heads") == heads and m.joined.shape == (*m.part.shape[:2], heads * size)
    require(is_joined, "the heads are joined otherwise")
    made = by_runtime(g, m, g.reshape(m.x, [0, 0, heads * m.columns]), **told)
    return g.reshape(made, [0, 0, heads, m.columns])
