"""Casts to the dtype of another tensor, if that dtype is known."""

from typing import Any

from surgeon import Graph, Tensor, require, rule


def like(g: Graph, x: Tensor, other: Tensor, **attributes: Any) -> Tensor:
    """A Cast of x to the dtype of another tensor."""
    return g.capture("y", g.cast_like(x, other, **attributes))


@rule(patterns=[like], target="any")
def known_cast_like(g: Graph, x: Tensor, y: Tensor, attributes: dict[str, Any]) -> Tensor:
    """Write CastLike as Cast if the dtype is known.

    What: CastLike, as in the functions that torch's exporter writes.  Rules that know Cast then know it, too, and a
    constant before it becomes a constant of that dtype.
    Numerics: none.
    """
    require(y.dtype is not None, "the dtype is unknown")
    return g.cast(x, to=y.dtype, **attributes)
