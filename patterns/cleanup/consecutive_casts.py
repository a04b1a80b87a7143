"""Chains of Casts that become one Cast or none."""

import numpy as np

from surgeon import Graph, Tensor, require, rule


def cast_twice(g: Graph, x: Tensor, first: int, to: int) -> Tensor:
    """A Cast of a Cast of x."""
    return g.capture("y", g.cast(g.shared(g.capture("middle", g.cast(x, to=first))), to=to))


def kind(dtype: np.dtype) -> str:
    """Return "i" for integers, "f" for floats, or another kind.  NumPy does not treat bfloat16 as a float."""
    return {"u": "i", "V": "f" if dtype.name == "bfloat16" else ""}.get(dtype.kind, dtype.kind)


def widens(narrow: np.dtype, wide: np.dtype) -> bool:
    """Return whether the wide dtype represents every value of the narrow one. float64 does not, for int64."""
    is_long = narrow in (np.int64, np.uint64) and kind(wide) == "f"
    return kind(narrow) in "bif" and kind(wide) in "bif" and np.can_cast(narrow, wide) and not is_long


def changes_no_value(x: Tensor, middle: Tensor, y: Tensor) -> None:
    """Require that the first Cast loses nothing, and that the second means the same without it."""
    require(all(item.dtype is not None for item in (x, middle, y)), "a dtype is unknown")
    require(widens(x.dtype, middle.dtype), f"{middle.dtype} does not represent every value of {x.dtype}")
    kinds = [kind(item.dtype) for item in (x, middle, y)]
    require(
        x.dtype == y.dtype or widens(x.dtype, y.dtype) or kinds in (["i", "i", "i"], ["i", "i", "f"], ["f", "f", "f"]),
        f"{x.dtype} may become another {y.dtype} without the first Cast, depending on the runtime",
    )


@rule(patterns=[cast_twice], conditions=[changes_no_value], target="any")
def consecutive_casts(g: Graph, x: Tensor, y: Tensor, to: int) -> Tensor:
    """Merge two Casts into one, or remove both if the second undoes the first.

    What: a widening Cast, which loses nothing, and a Cast of its result.  The rule never matches if the first Cast
    narrows.
    Numerics: none.
    """
    return x if x.dtype == y.dtype else g.cast(x, to=to)
