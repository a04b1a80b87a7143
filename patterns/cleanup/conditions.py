"""Conditions that one node fewer expresses: negated conditions of Where, and two comparisons that are one."""

from surgeon import Graph, Tensor, rule


def negated(g: Graph, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """A Where whose condition is negated."""
    return g.where(g.shared(g.not_(condition)), x, y)


@rule(patterns=[negated], target="any", opset=9)
def negated_where(g: Graph, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Swap the branches of a Where, instead of negating its condition.

    What: Where of a Not.  The Not stays if it has other consumers.
    Numerics: none.
    """
    return g.where(condition, y, x)


def larger_or_equal(g: Graph, a: Tensor, b: Tensor) -> Tensor:
    """a > b or a = b."""
    return g.or_(g.greater(a, b), g.equal(a, b))


@rule(patterns=[larger_or_equal], target="any", opset=12)
def greater_or_equal(g: Graph, a: Tensor, b: Tensor) -> Tensor:
    """Write a > b or a = b as one comparison.

    What: Or of Greater or Less and Equal of the same tensors, which is the function body of GreaterOrEqual.
    Numerics: none.  All three comparisons with NaN are false.
    """
    return g.greater_or_equal(a, b)
