"""Casts between nodes that only move a tensor.  They prevent these nodes from cancelling."""

from typing import Any

from surgeon import Captures, Graph, Tensor, require, rule

BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


class Move(Captures):
    """A Transpose or a Reshape."""

    shape: Tensor | None = None
    attributes: dict[str, Any]


class Between(Captures):
    """x, moved (first), cast (y) and moved again (second)."""

    x: Tensor
    moved: Tensor | Any = None
    y: Tensor | Any = None
    to: int
    first: Move
    second: Move


def move(g: Graph, m: Move, x: Tensor) -> Tensor:
    """Transpose or reshape x."""
    return g.any_of(g.transpose(x, **m.attributes), g.reshape(x, m.shape, **m.attributes))


def written(g: Graph, m: Move, x: Tensor) -> Tensor:
    """Write the same move for another tensor."""
    made: Tensor = g.transpose(x, **m.attributes) if m.shape is None else g.reshape(x, m.shape, **m.attributes)
    return made


def cast_and_moved(g: Graph, m: Between, moved: Tensor) -> Tensor:
    """A Cast of a moved tensor, moved again."""
    m.moved = moved
    m.y = g.cast(m.moved, to=m.to)
    return move(g, m.second, m.y)


def before_cast(g: Graph, m: Between) -> Tensor:
    """The same.  The tensor before the Cast may have other consumers."""
    return cast_and_moved(g, m, g.shared(move(g, m.first, m.x)))


def behind_cast(g: Graph, m: Between) -> Tensor:
    """The same for a tensor that is moved only for the Cast."""
    return cast_and_moved(g, m, move(g, m.first, m.x))


def step(m: Between) -> int:
    """Return by how many bytes the Cast widens a number.  Refuse dtypes that are not floats."""
    names = str(m.moved.dtype), str(m.y.dtype)
    require(all(name in BYTES for name in names), "it is not a Cast from one float dtype to another")
    return BYTES[names[1]] - BYTES[names[0]]


@rule(patterns=[before_cast], target="any")
def sink_widening_cast(g: Graph, m: Between) -> Tensor:
    """Move a widening Cast after all nodes that move the tensor, so that the moves before and after it can cancel.

    What: a Cast of half precision to float32, or similar, between two Transposes or Reshapes.  Less data is moved.
    Numerics: none.
    """
    require(step(m) > 0, "the Cast does not widen")
    return g.cast(written(g, m.second, written(g, m.first, m.x)), to=m.to)


@rule(patterns=[behind_cast], target="any")
def hoist_narrowing_cast(g: Graph, m: Between) -> Tensor:
    """Move a narrowing Cast before all nodes that move the tensor, so that the moves before and after it can cancel.

    What: a Cast of float32 to half precision, or similar, between two Transposes or Reshapes.  Less data is moved.
    Numerics: none.
    """
    require(step(m) < 0, "the Cast does not narrow")
    return written(g, m.second, written(g, m.first, g.cast(m.x, to=m.to)))
