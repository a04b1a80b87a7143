"""What can be computed once and for all: subgraphs of constants."""

from typing import Any

from surgeon import Graph, Tensor, rule, searches


@rule(search=searches.constant_subgraphs(), target="any")
def constant_folding(g: Graph, values: list[Any]) -> list[Tensor]:
    """Write the result of nodes that compute from constants alone in their place.

    What: constants, and sizes that no free dimension changes, through ops that copy, compare and calculate, and
    products of matrices, up to 1 MiB of result.  What is spread out of less stays (a mask made of one number): the
    file would grow.
    Numerics: rounding only, and only where exponentials, logarithms, powers, sines, cosines or products of matrices
    were computed.
    """
    return [g.literal(value) for value in values]
