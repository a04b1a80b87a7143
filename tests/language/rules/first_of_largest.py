"""The place of the largest number, found by sorting: TopK of one, of which nobody reads the number itself.

A routing of experts (Fedus et al., arXiv:2101.03961) reads it, as the weight of the expert, and stays whole.
"""

from surgeon import Captures, Graph, Tensor, rule


class Largest(Captures):
    x: Tensor
    axis: int


def place_of_top(g: Graph, m: Largest) -> Tensor:
    """The second output of TopK, sorted or not: of one number that is the same."""
    return g.any_of(*(g.top_k(m.x, [1], axis=m.axis, sorted=way)[1] for way in (0, 1)))


NUMBERS = {"non_finite": "among NaNs and infinities TopK and ArgMax may choose differently"}


@rule(patterns=[place_of_top], target="any", differs=NUMBERS)
def first_of_largest(g: Graph, m: Largest) -> Tensor:
    """Write ArgMax."""
    return g.arg_max(m.x, axis=m.axis, keepdims=1)
