"""Rotary position embedding of the first numbers of each head, behind which the others stay as they are."""

from collections.abc import Callable
from typing import Any

from surgeon import Captures, Graph, Tensor, dims, require, rule
from ._layouts import reshaped


class Partial(Captures):
    """Heads, the part of them that is turned and the rest; joined: the parts of heads behind rows as one axis."""

    x: Tensor = dims("batch _ _ columns")
    part: Tensor = dims("batch _ _ _")
    rest: Tensor = dims("batch _ _ _")
    joined: Tensor | None = None
    places: Tensor | None = None
    cos: Tensor
    sin: Tensor
    attributes: dict[str, Any]
    columns: int


def is_first(_: Tensor, starts: Tensor, axes: Tensor) -> None:
    """A slice begins where the last of four axes does."""
    require(starts.elements == [0], "the first part does not begin with the first number")
    require(axes.elements in ([3], [-1]), "it is not the last of four axes that is cut")


def is_last(_: Tensor, ends: Tensor, axes: Tensor, x: Tensor) -> None:
    """A slice ends where the last of four axes does."""
    require(axes.elements in ([3], [-1]), "it is not the last of four axes that is cut")
    end = (ends.elements or [None])[0]
    require(isinstance(end, int) and end >= x.shape[3], "the last part does not end with the head")


def cut(g: Graph, x: Tensor, is_it: Callable[..., None], *more: Tensor) -> Tensor:
    """A slice along one axis without steps."""
    starts, ends, axes = g.any_tensor(), g.any_tensor(), g.any_tensor()
    bound = starts if is_it is is_first else ends
    made = g.any_of(g.slice(x, starts, ends, axes), g.slice(x, starts, ends, axes, [1]))
    return g.such_that(made, is_it, bound, axes, *more)


def beside_rest(g: Graph, m: Partial, turn: Callable[[], Any]) -> Tensor:
    """The first numbers of the last axis, which something turns as m.part, before the others."""
    by_sizes = g.split(m.x, g.any_tensor(), axis=-1, outputs=2)
    in_half = g.split(m.x, axis=-1, num_outputs=2, outputs=2)
    forms = []
    for part, rest in ((cut(g, m.x, is_first), cut(g, m.x, is_last, m.x)), by_sizes, in_half):
        m.part, m.rest = part, rest
        forms.append(g.concat(turn(), m.rest, axis=-1))
    return g.any_of(*forms)


def of_heads(g: Graph, m: Partial) -> Tensor:
    """RotaryEmbedding of a part of [batch, head, row, column]."""
    return beside_rest(g, m, lambda: g.ms_rotary_embedding(m.part, m.places, m.cos, m.sin, **m.attributes))


def behind_rows(g: Graph, m: Partial) -> Tensor:
    """RotaryEmbedding of a part of [batch, row, head, column], whose heads are joined for it and split again."""

    def turn() -> Tensor:
        m.joined = reshaped(g, m.part)
        return reshaped(g, g.ms_rotary_embedding(m.joined, m.places, m.cos, m.sin, **m.attributes))

    return beside_rest(g, m, turn)


def standard(g: Graph, m: Partial) -> Tensor:
    """ONNX's RotaryEmbedding of a part of [batch, head, row, column]."""
    return beside_rest(g, m, lambda: g.rotary_embedding(m.part, m.cos, m.sin, **m.attributes))


def of_parts(m: Partial) -> dict[str, int]:
    """What says that only a part of [batch, ·, ·, column] is turned."""
    require(m.part.shape[3] + m.rest.shape[3] == m.columns, "the parts are not all of a head")
    require(not m.attributes.get("rotary_embedding_dim"), "of the first part, it turns a part again")
    return {**m.attributes, "rotary_embedding_dim": m.part.shape[3]}


@rule(patterns=[of_heads, behind_rows])
def rotary_partial(g: Graph, m: Partial) -> Tensor:
    """Let RotaryEmbedding take whole heads, of which it turns the first numbers, and leave the others itself.

    What: concat(rotary(x[..., :n]), x[..., n:]) over the last axis of [batch, head, row, column], or with the heads
    behind the rows.
    Numerics: none.
    """
    only, heads = of_parts(m), m.x.shape[1 if m.joined is None else 2]
    require(isinstance(heads, int), "the number of heads is unknown")
    given = {**only, "num_heads": heads}
    if m.joined is None:
        return g.ms_rotary_embedding(m.x, m.places, m.cos, m.sin, **given)
    require(m.attributes.get("num_heads") == heads, "the heads are joined otherwise")
    require(m.joined.shape == (*m.part.shape[:2], heads * m.part.shape[3]), "the heads are joined otherwise")
    rows = g.reshape(m.x, [0, 0, heads * m.columns])
    return g.reshape(g.ms_rotary_embedding(rows, m.places, m.cos, m.sin, **given), [0, 0, heads, m.columns])


@rule(patterns=[standard], target="onnx", opset=23)
def standard_rotary_partial(g: Graph, m: Partial) -> Tensor:
    """The same for ONNX's RotaryEmbedding.

    Numerics: none.
    """
    return g.rotary_embedding(m.x, m.cos, m.sin, **of_parts(m))
