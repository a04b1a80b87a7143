"""Conditions one behind the other that put the same number in the place of others: one mask after the other."""

from surgeon import Graph, Tensor, rule
from .._common.where_masks import WhereMask, where_masked


class Twice(WhereMask):
    """Numbers x, in the place of some of which `low` is put by one condition, and then by another."""

    x: Tensor
    low: float
    then: WhereMask


def one_after_the_other(g: Graph, m: Twice) -> Tensor:
    """Where over a Where."""
    return where_masked(g, m.then, where_masked(g, m, m.x, m.low), m.low)


@rule(patterns=[one_after_the_other], target="any", opset=9)
def nested_where(g: Graph, m: Twice) -> Tensor:
    """Hide numbers by one condition instead of two in a row, so that an attention is found whose scores both hide.

    What: Where over a Where that put the same number in, as in scores of which padding and the future are hidden.
    Numerics: none.
    """
    conditions = m.condition, m.then.condition
    if not any(is_kept for _, is_kept in conditions):
        return g.where(g.or_(*(condition for condition, _ in conditions)), m.low, m.x)
    first, second = (condition if is_kept else g.not_(condition) for condition, is_kept in conditions)
    return g.where(g.and_(first, second), m.x, m.low)
