"""Chains of Clip and Relu that become one node."""

from math import inf

from surgeon import Graph, Tensor, require, rule


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


def relu_twice(g: Graph, x: Tensor) -> Tensor:
    """A Relu of a Relu."""
    return g.relu(g.shared(g.relu(x)))


@rule(patterns=[limited_twice, relu_of_limited, limited_relu], target="any")
def consecutive_clips(g: Graph, x: Tensor, a: float = 0, b: float = inf, c: float = 0, d: float = inf) -> Tensor:
    """Merge two consecutive limits into one Clip.

    What: Clip of a Clip, and Relu before or after a Clip, with fixed bounds.  The bounds a and b of the first are
    clipped to the bounds c and d of the second.  The first node stays if it has other consumers.
    Numerics: none.
    """
    low, high, least, most = (
        (-inf, inf)[place % 2] if bound is None else bound for place, bound in enumerate((a, b, c, d))
    )
    require(low <= high and least <= most, "a lower bound is above the upper one")
    bounds = (min(max(bound, least), most) for bound in (low, high))
    return g.clip(x, *(None if abs(bound) == inf else bound for bound in bounds))


@rule(patterns=[relu_twice], target="any")
def consecutive_relus(g: Graph, x: Tensor) -> Tensor:
    """Merge a Relu of a Relu into one.

    What: Relu of Relu.  The first stays if it has other consumers.
    Numerics: none.
    """
    return g.relu(x)
