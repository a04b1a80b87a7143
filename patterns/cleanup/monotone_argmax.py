"""ArgMax and ArgMin of a function that keeps the order of numbers, such as the softmax of a classifier."""

from typing import Any

from surgeon import Graph, Match, Tensor, rule
from ..activations.softmax import has_one_axis

TIES = "the function rounds different numbers to one value, of which the first counts, but x has a single largest one"
SOFTMAX_DIFFERS = {
    **dict.fromkeys(("denormals", "small", "magnitudes"), TIES),
    "non_finite": "softmax of a row with NaN or +∞ is NaN everywhere, but ArgMax of x finds the element",
}
DIFFERS = {**SOFTMAX_DIFFERS, **dict.fromkeys(("extreme", "large", "wide", "offset"), TIES)}


def largest_share(g: Graph, x: Tensor, axis: int, **others: Any) -> Tensor:
    """The index of the largest softmax, or of its logarithm."""
    return g.arg_max(g.any_of(g.softmax(x, axis=axis), g.log_softmax(x, axis=axis)), axis=axis, **others)


@rule(patterns=[largest_share], conditions=[has_one_axis], target="any", differs=SOFTMAX_DIFFERS)
def softmax_argmax(g: Graph, x: Tensor, axis: int, others: dict[str, Any]) -> Tensor:
    """Remove a Softmax or LogSoftmax before an ArgMax along the same axis.

    What: ArgMax of Softmax or LogSoftmax, as classifiers that return a class have it.
    Numerics: the index is that of the largest x.  Softmax may round the largest numbers to the same share if they
    differ by less than about 1e-7, and then ArgMax returns the first of them.
    """
    return g.arg_max(x, axis=axis, **others)


def increasing(g: Graph, x: Tensor) -> Tensor:
    """A function that increases everywhere.  Sigmoid, Tanh and Erf are 1 for many usual numbers."""
    return g.any_of(g.exp(x), g.softplus(x), g.atan(x))


def largest(g: Graph, x: Tensor, **others: Any) -> Tensor:
    """The index of the largest value of an increasing function."""
    return g.arg_max(increasing(g, x), **others)


def smallest(g: Graph, x: Tensor, **others: Any) -> Tensor:
    """The index of the smallest value of an increasing function."""
    return g.arg_min(increasing(g, x), **others)


@rule(patterns=[largest, smallest], target="any", differs=DIFFERS)
def monotone_argmax(g: Graph, match: Match, x: Tensor, others: dict[str, Any]) -> Tensor:
    """Remove an increasing function before an ArgMax or ArgMin.

    What: ArgMax and ArgMin of Exp, Softplus or Atan.
    Numerics: the index is that of the largest or smallest x.  The function may round different numbers to the same
    value, and then ArgMax returns the first of them: Exp is infinite for all x above 88.7 in float32.
    """
    return g.arg_max(x, **others) if match.root.op == "ArgMax" else g.arg_min(x, **others)
