"""Subgraphs of constants, which can be computed once."""

from typing import Any

from surgeon import Graph, Tensor, rule, searches


@rule(search=searches.constant_subgraphs(), target="any")
def constant_folding(g: Graph, values: list[Any]) -> list[Tensor]:
    """Replace nodes that depend only on constants by their result.

    What: constants, and sizes that do not depend on a dynamic dimension, through ops that copy, compare and calculate,
    and products of matrices, up to 1 MiB of result.  A tensor that is expanded from fewer numbers (a mask of one
    number) is not folded, because the file would grow.  `--fold-limit` states another limit for both.
    Numerics: rounding only, and only for exponentials, logarithms, powers, sines, cosines and products of matrices.
    """
    return [g.literal(value) for value in values]
