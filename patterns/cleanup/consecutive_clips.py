"""Chains of Clip and Relu, of Min, of Max, and of Sign that become one node."""

from functools import reduce
from math import inf, isnan, prod
from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule


class Limits(Captures):
    """x, and the bounds of a first Clip (a and b), of a second (c and d), and of a Max or Min (least and most)."""

    x: Tensor
    a: float | Any = ()
    b: float | Any = ()
    c: float | Any = ()
    d: float | Any = ()
    least: float | None = None
    most: float | None = None


def one_limit(g: Graph, m: Limits, x: Tensor) -> Tensor:
    """A Relu of x, or a Max or Min of x and a number."""
    return g.any_of(g.relu(x), g.max(x, m.least), g.min(x, m.most))


def limited_twice(g: Graph, m: Limits) -> Tensor:
    """A Clip, Relu, Max or Min of a Clip."""
    first = g.shared(g.clip(m.x, m.a, m.b))
    return g.any_of(g.clip(first, m.c, m.d), one_limit(g, m, first))


def limited_again(g: Graph, m: Limits) -> Tensor:
    """A Clip of a Relu, Max or Min."""
    return g.clip(g.shared(one_limit(g, m, m.x)), m.c, m.d)


def relu_twice(g: Graph, x: Tensor) -> Tensor:
    """A Relu of a Relu."""
    return g.relu(g.shared(g.relu(x)))


@rule(patterns=[limited_twice, limited_again], target="any")
def consecutive_clips(g: Graph, m: Limits) -> Tensor:
    """Merge two consecutive limits into one Clip.

    What: Clip of a Clip, and Relu, Max or Min before or after a Clip, with fixed bounds.  The bounds a and b of the
    first are clipped to the bounds c and d of the second.  A second Clip with c > d makes all numbers d.  The first
    node stays if it has other consumers.
    Numerics: none.
    """
    other = (0, None) if m.least is None and m.most is None else (m.least, m.most)  # Relu, or Max or Min
    bounds = *(other if m.a == () else (m.a, m.b)), *(other if m.c == () else (m.c, m.d))
    low, high, lower, upper = ((-inf, inf)[at % 2] if bound is None else bound for at, bound in enumerate(bounds))
    require(not isnan(lower) and not isnan(upper), "a bound is NaN")
    require(low <= high, "the lower bound of the first limit is above its upper one, so that it replaces NaN too")
    if lower <= upper:
        lower, upper = (min(max(bound, lower), upper) for bound in (low, high))
    return g.clip(m.x, None if lower == -inf else lower, None if upper == inf else upper)


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


def extreme_twice(g: Graph, m: Extremes) -> Tensor:
    """A Min of a Min, or a Max of a Max."""
    writes = (g.min, g.max)
    first = [(write, write(m.x, *m.first)) for write in writes]
    return g.any_of(*(form for write, one in first for form in (write(one, *m.second), write(m.other, one))))


@rule(patterns=[extreme_twice], target="any")
def consecutive_extremes(g: Graph, m: Extremes) -> Tensor:
    """Merge a Min of a Min or a Max of a Max into one node, and their constants into one constant.

    What: Min of Min, or Max of Max, with any number of operands.
    Numerics: none.
    """
    operands = [m.x, *m.first, *m.second, *([] if m.other is None else [m.other])]
    constants = sorted((item for item in operands if item.is_constant), key=lambda item: -prod(item.shape))
    fitting = [item for item in constants if np.broadcast_shapes(item.shape, constants[0].shape) == constants[0].shape]
    if len(fitting) > 1:
        extreme = np.minimum if m.match.root.op == "Min" else np.maximum
        merged = g.literal(reduce(extreme, [item.values for item in fitting]))
        operands = [*(item for item in operands if not any(item is one for one in fitting)), merged]
    made: Tensor = g.op(m.match.root.op, *operands)
    return made


def sign_twice(g: Graph, x: Tensor) -> Tensor:
    """A Sign of a Sign of x."""
    return g.sign(g.sign(x))


@rule(patterns=[sign_twice], target="any")
def consecutive_signs(g: Graph, x: Tensor) -> Tensor:
    """Merge a Sign of a Sign into one.

    What: Sign of Sign.
    Numerics: none.
    """
    return g.sign(x)
