"""How pairs of formulas are written down that are equal for all inputs, up to rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.mutation.building import Shape

FLOATS = ("float32", "float16", "float64")
INTEGERS = ("int64", "int32")
NUMBERS = (*FLOATS, *INTEGERS)
SHAPES: tuple[Shape, ...] = (("n", "m"), (2, 3, 4), ("b", 5, "s", 4))


@dataclass(frozen=True)
class Pair:
    """Two formulas.  takes: the kind of each input, "x" a number of the dtype, "b" a boolean, "i" an int64.

    gives: the dtype of the result, "" for that of the numbers.
    """

    name: str
    left: Callable[..., Any]
    right: Callable[..., Any]
    takes: str
    dtypes: tuple[str, ...]
    shapes: tuple[Shape, ...]
    gives: str = ""


THREE: tuple[Shape, ...] = ((2, 3, 4), ("b", "s", 4), ("b", 3, "t"))
PLANE: tuple[Shape, ...] = (("n", "m"), (3, 5))
SQUARE: tuple[Shape, ...] = ((4, 4), ("b", 4, 4), (2, 3, 4, 4))


def pairs() -> Iterator[Pair]:
    """All of them, the other way round too where `both` says so."""
    for name, left, right, takes, dtypes, shapes, gives, both in _TABLE:
        yield Pair(name, left, right, takes, dtypes, shapes, gives)
        if both:
            yield Pair(f"{name}, back", right, left, takes, dtypes, shapes, gives)


_TABLE: list[tuple[str, Any, Any, str, tuple[str, ...], tuple[Shape, ...], str, bool]] = []


def equal(
    name: str,
    left: Any,
    right: Any,
    takes: str = "x",
    dtypes: tuple[str, ...] = NUMBERS,
    shapes: tuple[Shape, ...] = SHAPES,
    gives: str = "",
    both: bool = True,
) -> None:
    """Add a pair."""
    _TABLE.append((name, left, right, takes, dtypes, shapes, gives, both))


def turned(g: Any, x: Any, axis: int = -1) -> Any:
    """x from the end to the beginning of an axis."""
    return g.slice(x, [-1], [-(1 << 62)], [axis], [-1])
