"""The letters of an Einsum of one or two factors: what each axis is to a product of matrices."""

from collections.abc import Sequence
from typing import NamedTuple

from surgeon import Captures, Tensor, dims, require

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class OneOperand(Captures):
    """One factor, and the letters of its axes and of the result's."""

    a: Tensor = dims("...")
    equation: str


class TwoOperands(OneOperand):
    """Two factors, and the letters of their axes and of the result's."""

    b: Tensor = dims("...")


def expand_ellipsis(equation: str, ranks: Sequence[int]) -> list[str]:
    """A letter for each axis of factors of these ranks, and of the result, also where the equation has an ellipsis."""
    sides, arrow, made = equation.replace(" ", "").partition("->")
    require(arrow != "", "the equation does not name the result's axes")
    factors = sides.split(",")
    require(len(factors) == len(ranks), "the equation does not fit the factors")
    unused = "".join(letter for letter in LETTERS if letter not in equation)
    counts = [rank + 3 - len(side) if "..." in side else 0 for rank, side in zip(ranks, factors, strict=True)]
    require(len({count for count in counts if count}) < 2, "the ellipsis stands for other axes in each factor")
    terms = [side.replace("...", unused[:count]) for side, count in zip(factors, counts, strict=True)]
    require([*map(len, terms)] == [*ranks], "the equation does not fit the factors")
    terms.append(made.replace("...", unused[: max(counts)]))
    require(all(len(set(term)) == len(term) for term in terms), "an axis is named twice: a diagonal")
    return terms


class AxisRoles(NamedTuple):
    """The axes of a product of two factors, each a string of letters."""

    batch: str
    """Axes of both factors and of the result."""
    rows: str
    """Axes of the first factor and of the result."""
    summed: str
    """Axes of both factors that are summed over."""
    columns: str
    """Axes of the second factor and of the result."""


def axis_roles(left: str, right: str, made: str) -> AxisRoles:
    """What each letter of two factors and their product is to it.  Refuses what no product of matrices is."""
    both = [letter for letter in left if letter in right]
    alone = set(left + right) - set(both)
    require(alone <= set(made), "an axis of one factor alone is summed")
    require(set(made) <= {*both, *alone}, "the equation names an axis of the result that no factor has")
    summed = "".join(letter for letter in both if letter not in made)
    require(summed != "", "nothing is summed: it is no product of matrices")
    batch, rows, columns = (
        "".join(letter for letter in made if letter in where) for where in (both, alone & set(left), alone & set(right))
    )
    return AxisRoles(batch, rows, summed, columns)
