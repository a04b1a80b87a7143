"""Conditions that decide nothing: one side of an And or Or, or that of a Where, is the same everywhere."""

from surgeon import Graph, Tensor, require, rule, searches
from .no_ops import may_broadcast


def keeps_shape(x: Tensor, condition: Tensor, untaken: Tensor | None = None) -> None:
    """What is not handed on does not spread out the rest.  A file may state another shape of the result."""
    others = [condition] if untaken is None else [condition, untaken]
    require(not may_broadcast(x, *others), "the condition, or what is not taken, gives a larger shape")


@rule(search=searches.always_true, conditions=[keeps_shape], target="any")
def no_op_and(g: Graph, x: Tensor) -> Tensor:
    """Take out And with a condition that always holds.

    What: And with a constant of truths, or with a comparison of a range that its sizes decide: i >= 0.
    Numerics: none.
    """
    return x


@rule(search=searches.never_true, conditions=[keeps_shape], target="any")
def no_op_or(g: Graph, x: Tensor) -> Tensor:
    """Take out Or with a condition that never holds.

    What: as `no_op_and`.
    Numerics: none.
    """
    return x


@rule(search=searches.one_sided, conditions=[keeps_shape], target="any")
def no_op_where(g: Graph, x: Tensor) -> Tensor:
    """Take out Where by a condition that is the same everywhere.

    What: Where by a constant of equal truths, or by a comparison of a range that its sizes decide.
    Numerics: none.
    """
    return x
