"""Chains of casts, in one Cast or none."""

import numpy as np

from surgeon import Graph, Tensor, require, rule


def cast_twice(g: Graph, x: Tensor, first: int, to: int) -> Tensor:
    """x in a type, and that in another."""
    return g.capture("y", g.cast(g.shared(g.capture("middle", g.cast(x, to=first))), to=to))


def kind(dtype: np.dtype) -> str:
    """Integers, floats, or neither; numpy does not take bfloat16 for a float."""
    return {"u": "i", "V": "f" if dtype.name == "bfloat16" else ""}.get(dtype.kind, dtype.kind)


def widens(narrow: np.dtype, wide: np.dtype) -> bool:
    """Whether the wide type holds every value of the narrow one; float64 does not hold int64, whatever numpy says."""
    is_long = narrow in (np.int64, np.uint64) and kind(wide) == "f"
    return kind(narrow) in "bif" and kind(wide) in "bif" and np.can_cast(narrow, wide) and not is_long


def changes_no_value(x: Tensor, middle: Tensor, y: Tensor) -> None:
    """The first cast loses nothing, and the second means the same without it."""
    require(all(item.dtype is not None for item in (x, middle, y)), "a dtype is unknown")
    require(widens(x.dtype, middle.dtype), f"{middle.dtype} does not hold every value of {x.dtype}")
    kinds = [kind(item.dtype) for item in (x, middle, y)]
    require(
        x.dtype == y.dtype or widens(x.dtype, y.dtype) or kinds in (["i", "i", "i"], ["i", "i", "f"], ["f", "f", "f"]),
        f"whether {x.dtype} becomes the same {y.dtype} by both ways depends on how the runtime casts",
    )


@rule(patterns=[cast_twice], conditions=[changes_no_value], target="any")
def consecutive_casts(g: Graph, x: Tensor, y: Tensor, to: int) -> Tensor:
    """Write two casts as one, or as none where the second undoes the first.

    What: a Cast that widens, so that it loses nothing, and a Cast of its result; never one that narrows first.
    Numerics: none.
    """
    return x if x.dtype == y.dtype else g.cast(x, to=to)
