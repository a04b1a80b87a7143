"""Conditions one behind the other that put the same number in the place of others: one mask after the other."""

from typing import Any

from surgeon import Graph, Tensor, rule
from ._conditions import Conditioned, chosen


class Twice(Conditioned):
    """Numbers x, in the place of some of which `low` is put, twice.

    kept, seen: the first and the second condition for a number to stay.  hidden, masked: the same for it not to.
    """

    x: Tensor
    low: float
    seen: Tensor | Any = None
    masked: Tensor | Any = None


def one_after_the_other(g: Graph, m: Twice) -> Tensor:
    """Where over a Where."""
    once = chosen(g, m, m.x, m.low)
    return g.any_of(g.where(m.seen, once, m.low), g.where(m.masked, m.low, once))


@rule(patterns=[one_after_the_other], target="any", opset=9)
def chained_conditions(g: Graph, m: Twice) -> Tensor:
    """Hide numbers by one condition instead of two in a row, so that an attention is found whose scores both hide.

    What: Where over a Where that put the same number in, as in scores of which padding and the future are hidden.
    Numerics: none.
    """
    if m.kept is None and m.seen is None:
        return g.where(g.or_(m.hidden, m.masked), m.low, m.x)
    first, second = (g.not_(no) if yes is None else yes for yes, no in ((m.kept, m.hidden), (m.seen, m.masked)))
    return g.where(g.and_(first, second), m.x, m.low)
