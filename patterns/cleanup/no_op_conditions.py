"""Conditions without effect: one operand of an And or Or, or the condition of a Where, is the same everywhere."""

from surgeon import Graph, Tensor, require, rule, searches
from .no_ops import may_broadcast


def keeps_shape(x: Tensor, condition: Tensor, untaken: Tensor | None = None) -> None:
    """Require that the removed inputs do not broadcast the rest.  A file may declare another shape of the result."""
    others = [condition] if untaken is None else [condition, untaken]
    require(
        not may_broadcast(x, *others), "the condition or the unused branch may broadcast the result to a larger shape"
    )


@rule(search=searches.always_true, conditions=[keeps_shape], target="any")
def no_op_and(g: Graph, x: Tensor) -> Tensor:
    """Remove And with a condition that is always true.

    What: And with a constant of true values, or with a comparison of a range that its sizes decide: i >= 0.
    Numerics: none.
    """
    return x


@rule(search=searches.never_true, conditions=[keeps_shape], target="any")
def no_op_or(g: Graph, x: Tensor) -> Tensor:
    """Remove Or with a condition that is always false.

    What: as `no_op_and`.
    Numerics: none.
    """
    return x


@rule(search=searches.one_sided, conditions=[keeps_shape], target="any")
def no_op_where(g: Graph, x: Tensor) -> Tensor:
    """Remove Where with a condition that is the same everywhere.

    What: Where with a constant of equal booleans, or with a comparison of a range that its sizes decide.
    Numerics: none.
    """
    return x
