"""Chains of Clip and Relu, of Min, of Max, and of ops without effect on their own result, that become one node."""

from functools import reduce
from math import inf, isnan, prod
from typing import Any

import numpy as np

from surgeon import Captures, Graph, Match, Tensor, require, rule


def limited_twice(
    g: Graph, x: Tensor, a: float | None = None, b: float | None = None, c: float | None = None, d: float | None = None
) -> Tensor:
    """A Clip of a Clip."""
    return g.clip(g.shared(g.clip(x, a, b)), c, d)


def relu_of_limited(g: Graph, x: Tensor, a: float | None = None, b: float | None = None) -> Tensor:
    """A Relu of a Clip."""
    return g.relu(g.shared(g.clip(x, a, b)))


def limited_relu(g: Graph, x: Tensor, c: float | None = None, d: float | None = None) -> Tensor:
    """A Clip of a Relu."""
    return g.clip(g.shared(g.relu(x)), c, d)


def other_limit(g: Graph, x: Tensor, least: float | None = None, most: float | None = None) -> Tensor:
    """A Max or a Min of x and a number."""
    return g.any_of(g.max(x, least), g.min(x, most))


def other_of_limited(
    g: Graph,
    x: Tensor,
    a: float | None = None,
    b: float | None = None,
    least: float | None = None,
    most: float | None = None,
) -> Tensor:
    """A Max or Min of a Clip."""
    return other_limit(g, g.shared(g.clip(x, a, b)), least, most)


def limited_other(
    g: Graph,
    x: Tensor,
    c: float | None = None,
    d: float | None = None,
    least: float | None = None,
    most: float | None = None,
) -> Tensor:
    """A Clip of a Max or Min."""
    return g.clip(g.shared(other_limit(g, x, least, most)), c, d)


def relu_twice(g: Graph, x: Tensor) -> Tensor:
    """A Relu of a Relu."""
    return g.relu(g.shared(g.relu(x)))


@rule(patterns=[limited_twice, relu_of_limited, limited_relu, other_of_limited, limited_other], target="any")
def consecutive_clips(
    g: Graph,
    x: Tensor,
    a: Any = (),
    b: Any = (),
    c: Any = (),
    d: Any = (),
    least: float | None = None,
    most: float | None = None,
) -> Tensor:
    """Merge two consecutive limits into one Clip.

    What: Clip of a Clip, and Relu, Max or Min before or after a Clip, with fixed bounds.  The bounds a and b of the
    first are clipped to the bounds c and d of the second.  A second Clip with c > d makes all numbers d.  The first
    node stays if it has other consumers.
    Numerics: none.
    """
    other = (0, None) if least is None and most is None else (least, most)  # Relu, or Max or Min
    bounds = *(other if a == () else (a, b)), *(other if c == () else (c, d))
    low, high, lower, upper = ((-inf, inf)[at % 2] if bound is None else bound for at, bound in enumerate(bounds))
    require(not isnan(lower) and not isnan(upper), "a bound is NaN")
    require(low <= high, "the lower bound of the first limit is above its upper one, so that it replaces NaN too")
    if lower <= upper:
        lower, upper = (min(max(bound, lower), upper) for bound in (low, high))
    return g.clip(x, None if lower == -inf else lower, None if upper == inf else upper)


@rule(patterns=[relu_twice], target="any")
def consecutive_relus(g: Graph, x: Tensor) -> Tensor:
    """Merge a Relu of a Relu into one.

    What: Relu of Relu.  The first stays if it has other consumers.
    Numerics: none.
    """
    return g.relu(x)


class Extremes(Captures):
    """The operands of two Min or Max nodes, the second of which reads the first."""

    x: Tensor
    first: tuple[Tensor, ...]
    second: tuple[Tensor, ...] = ()
    other: Tensor | None = None


def least_twice(g: Graph, m: Extremes) -> Tensor:
    """A Min of a Min."""
    least = g.min(m.x, *m.first)
    return g.any_of(g.min(least, *m.second), g.min(m.other, least))


def greatest_twice(g: Graph, m: Extremes) -> Tensor:
    """A Max of a Max."""
    greatest = g.max(m.x, *m.first)
    return g.any_of(g.max(greatest, *m.second), g.max(m.other, greatest))


def merged(g: Graph, m: Extremes, extreme: np.ufunc) -> list[Tensor]:
    """Return the operands of both nodes, with one constant for those constants that broadcast to the largest."""
    operands = [m.x, *m.first, *m.second, *([] if m.other is None else [m.other])]
    constants = sorted((item for item in operands if item.is_constant), key=lambda item: -prod(item.shape))
    shape = constants[0].shape if constants else ()
    small = [item for item in constants if np.broadcast_shapes(item.shape, shape) == shape]
    others = [item for item in operands if not any(item is one for one in small)]
    return [*others, g.literal(reduce(extreme, [item.values for item in small]))] if len(small) > 1 else operands


@rule(patterns=[least_twice], target="any")
def consecutive_minima(g: Graph, m: Extremes) -> Tensor:
    """Merge a Min of a Min into one, and their constants into one constant.

    What: Min of Min with any number of operands.
    Numerics: none.
    """
    return g.min(*merged(g, m, np.minimum))


@rule(patterns=[greatest_twice], target="any")
def consecutive_maxima(g: Graph, m: Extremes) -> Tensor:
    """Merge a Max of a Max into one, and their constants into one constant.

    What: Max of Max with any number of operands.
    Numerics: none.
    """
    return g.max(*merged(g, m, np.maximum))


def applied_twice(g: Graph, x: Tensor) -> Tensor:
    """A node of a node of the same op, which changes nothing the second time."""
    ops = ("Sign", "Abs", "Ceil", "Floor", "Round")
    return g.any_of(*(g.op(op, g.capture("once", g.op(op, x))) for op in ops))


@rule(patterns=[applied_twice], target="any")
def repeated_rounding(g: Graph, x: Tensor, match: Match) -> Tensor:
    """Merge two equal nodes in a row into one, if the second has no effect.

    What: Sign of Sign, and the same for Abs, Ceil, Floor and Round.
    Numerics: none.
    """
    made: Tensor = g.op(match.root.op, x)
    return made
