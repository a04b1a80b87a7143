"""Chains of limits, in one node."""

from math import inf

from surgeon import Graph, Tensor, require, rule


def limited_twice(
    g: Graph, x: Tensor, a: float | None = None, b: float | None = None, c: float | None = None, d: float | None = None
) -> Tensor:
    """x between two limits, and between two others."""
    return g.clip(g.shared(g.clip(x, a, b)), c, d)


def relu_of_limited(g: Graph, x: Tensor, a: float | None = None, b: float | None = None) -> Tensor:
    """x between two limits, and not below 0."""
    return g.relu(g.shared(g.clip(x, a, b)))


def limited_relu(g: Graph, x: Tensor, c: float | None = None, d: float | None = None) -> Tensor:
    """x not below 0, and between two limits."""
    return g.clip(g.shared(g.relu(x)), c, d)


def relu_twice(g: Graph, x: Tensor) -> Tensor:
    """x not below 0, twice over."""
    return g.relu(g.shared(g.relu(x)))


@rule(patterns=[limited_twice, relu_of_limited, limited_relu], target="any")
def consecutive_clips(g: Graph, x: Tensor, a: float = 0, b: float = inf, c: float = 0, d: float = inf) -> Tensor:
    """Write two limits behind one another as one Clip.

    What: Clip of a Clip, and Relu before or behind a Clip, all bounds fixed: between a and b, then between c and d, is
    between a and b each put between c and d.  The first stays where others read it too.
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
    """Write a Relu of a Relu as one.

    What: Relu of Relu.  The first stays where others read it too.
    Numerics: none.
    """
    return g.relu(x)
