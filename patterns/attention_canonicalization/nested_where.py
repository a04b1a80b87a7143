"""Two nested conditions that insert the same number: one mask after the other."""

from surgeon import Graph, Tensor, rule
from .._common.where_masks import WhereMask, where_masked


class Twice(WhereMask):
    """Numbers x, some of which a first condition replaces by `low`, and then a second condition."""

    x: Tensor
    low: float
    then: WhereMask


def one_after_the_other(g: Graph, m: Twice) -> Tensor:
    """A Where whose input is a Where."""
    return where_masked(g, m.then, where_masked(g, m, m.x, m.low), m.low)


@rule(patterns=[one_after_the_other], target="any", opset=9)
def nested_where(g: Graph, m: Twice) -> Tensor:
    """Hide numbers with one condition instead of two nested ones, so that the attention rules match.

    What: a Where whose input is a Where with the same number, as in scores with padding and future keys hidden.
    Numerics: none.
    """
    conditions = m.condition, m.then.condition
    if not any(is_kept for _, is_kept in conditions):
        return g.where(g.or_(*(condition for condition, _ in conditions)), m.low, m.x)
    first, second = (condition if is_kept else g.not_(condition) for condition, is_kept in conditions)
    return g.where(g.and_(first, second), m.x, m.low)
