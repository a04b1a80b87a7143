"""Rotary position embedding of the first numbers of each head, behind which the others stay as they are."""

from collections.abc import Callable
from typing import Any

from surgeon import Graph, Tensor, require, rule
from ._layouts import reshaped


def is_first(_: Tensor, starts: Tensor, axes: Tensor) -> None:
    """A slice begins where the last of four axes does."""
    require(starts.elements == [0], "the first part does not begin with the first number")
    require(axes.elements in ([3], [-1]), "it is not the last of four axes that is cut")


def is_last(_: Tensor, ends: Tensor, axes: Tensor, x: Tensor) -> None:
    """A slice ends where the last of four axes does."""
    require(axes.elements in ([3], [-1]), "it is not the last of four axes that is cut")
    size, end = x.shape[3] if x.rank == 4 else None, (ends.elements or [None])[0]
    require(isinstance(size, int) and isinstance(end, int) and end >= size, "the last part does not end with the head")


def cut(g: Graph, x: Tensor, is_it: Callable[..., None], *more: Tensor) -> Tensor:
    """A slice along one axis without steps."""
    starts, ends, axes = g.any_tensor(), g.any_tensor(), g.any_tensor()
    bound = starts if is_it is is_first else ends
    made = g.any_of(g.slice(x, starts, ends, axes), g.slice(x, starts, ends, axes, [1]))
    return g.such_that(made, is_it, bound, axes, *more)


def beside_rest(g: Graph, x: Tensor, turn: Callable[[Tensor], Any]) -> Tensor:
    """The first numbers of the last axis, which something turns, before the others."""
    by_sizes, in_half = g.split(x, g.any_tensor(), axis=-1, outputs=2), g.split(x, axis=-1, num_outputs=2, outputs=2)
    halves = [(cut(g, x, is_first), cut(g, x, is_last, x)), (by_sizes[0], by_sizes[1]), (in_half[0], in_half[1])]
    parts = [(g.capture("part", part), g.capture("rest", rest)) for part, rest in halves]
    return g.any_of(*(g.concat(turn(part), rest, axis=-1) for part, rest in parts))


def of_heads(g: Graph, x: Tensor, places: Tensor, cos: Tensor, sin: Tensor, **attributes: Any) -> Tensor:
    """RotaryEmbedding of a part of [batch, head, row, column]."""
    return beside_rest(g, x, lambda part: g.ms_rotary_embedding(part, places, cos, sin, **attributes))


def behind_rows(g: Graph, x: Tensor, places: Tensor, cos: Tensor, sin: Tensor, **attributes: Any) -> Tensor:
    """RotaryEmbedding of a part of [batch, row, head, column], whose heads are joined for it and split again."""

    def turn(part: Tensor) -> Tensor:
        joined = g.capture("joined", reshaped(g, part))
        return reshaped(g, g.ms_rotary_embedding(joined, places, cos, sin, **attributes))

    return beside_rest(g, x, turn)


def standard(g: Graph, x: Tensor, cos: Tensor, sin: Tensor, **attributes: Any) -> Tensor:
    """ONNX's RotaryEmbedding of a part of [batch, head, row, column]."""
    return beside_rest(g, x, lambda part: g.rotary_embedding(part, cos, sin, **attributes))


def of_parts(x: Tensor, part: Tensor, rest: Tensor, attributes: dict[str, Any]) -> dict[str, int]:
    """What says that only a part of [batch, ·, ·, column] is turned."""
    require(x.shape is not None and part.shape is not None and rest.shape is not None, "the shape of a part is unknown")
    require(x.rank == 4 and part.shape[3] + rest.shape[3] == x.shape[3], "the parts are not all of a head")
    require(not attributes.get("rotary_embedding_dim"), "of the first part, it turns a part again")
    return {"rotary_embedding_dim": part.shape[3]}


@rule(patterns=[of_heads, behind_rows])
def rotary_partial(
    g: Graph,
    x: Tensor,
    part: Tensor,
    rest: Tensor,
    places: Tensor,
    cos: Tensor,
    sin: Tensor,
    attributes: dict[str, Any],
    joined: Tensor | None = None,
) -> Tensor:
    """Let RotaryEmbedding take whole heads, of which it turns the first numbers, and leave the others itself.

    What: concat(rotary(x[..., :n]), x[..., n:]) over the last axis of [batch, head, row, column], or with the heads
    behind the rows.
    Numerics: none.
    """
    only = of_parts(x, part, rest, attributes)
    heads = x.shape[1 if joined is None else 2]
    require(isinstance(heads, int), "the number of heads is unknown")
    given = {**attributes, **only, "num_heads": heads}
    if joined is None:
        return g.ms_rotary_embedding(x, places, cos, sin, **given)
    require(attributes.get("num_heads") == heads, "the heads are joined otherwise")
    require(joined.shape == (*part.shape[:2], heads * part.shape[3]), "the heads are joined otherwise")
    rows = g.reshape(x, [0, 0, heads * x.shape[3]])
    return g.reshape(g.ms_rotary_embedding(rows, places, cos, sin, **given), [0, 0, heads, x.shape[3]])


@rule(patterns=[standard], target="onnx", opset=23)
def standard_rotary_partial(
    g: Graph, x: Tensor, part: Tensor, rest: Tensor, cos: Tensor, sin: Tensor, attributes: dict[str, Any]
) -> Any:
    """The same for ONNX's RotaryEmbedding.

    Numerics: none.
    """
    return g.rotary_embedding(x, cos, sin, **{**attributes, **of_parts(x, part, rest, attributes)})
