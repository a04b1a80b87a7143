"""The equation of an Einsum of one or two factors: the role of each axis in a product of matrices."""

from collections.abc import Sequence
from typing import NamedTuple

from surgeon import Captures, Tensor, dims, require

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class OneOperand(Captures):
    """One factor, and the equation with letters for its axes and for the axes of the result."""

    a: Tensor = dims("...")
    equation: str


class TwoOperands(OneOperand):
    """Two factors, and the equation with letters for their axes and for the axes of the result."""

    b: Tensor = dims("...")


def expand_ellipsis(equation: str, ranks: Sequence[int]) -> list[str]:
    """Return a letter for each axis of factors of these ranks, and of the result, with ellipses expanded."""
    sides, arrow, made = equation.replace(" ", "").partition("->")
    require(arrow != "", "the equation does not give the axes of the result")
    factors = sides.split(",")
    require(len(factors) == len(ranks), "the equation does not fit the factors")
    unused = "".join(letter for letter in LETTERS if letter not in equation)
    counts = [rank + 3 - len(side) if "..." in side else 0 for rank, side in zip(ranks, factors, strict=True)]
    require(
        len({count for count in counts if count}) < 2, "the ellipsis must cover the same number of axes in each factor"
    )
    terms = [side.replace("...", unused[:count]) for side, count in zip(factors, counts, strict=True)]
    require([*map(len, terms)] == [*ranks], "the equation does not fit the factors")
    terms.append(made.replace("...", unused[: max(counts)]))
    require(all(len(set(term)) == len(term) for term in terms), "an axis occurs twice in a factor (a diagonal)")
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
    """Return the role of each letter in the product of two factors.  Refuse what is not a product of matrices."""
    both = [letter for letter in left if letter in right]
    alone = set(left + right) - set(both)
    require(alone <= set(made), "an axis of only one factor is summed")
    require(set(made) <= {*both, *alone}, "the result has an axis that neither factor has")
    summed = "".join(letter for letter in both if letter not in made)
    require(summed != "", "the equation sums over no axis, so it is not a product of matrices")
    batch, rows, columns = (
        "".join(letter for letter in made if letter in where) for where in (both, alone & set(left), alone & set(right))
    )
    return AxisRoles(batch, rows, summed, columns)
