"""Scores of an attention that are scaled with the mask that was added to them."""

from surgeon import Graph, Tensor, require, rule


def behind_mask(g: Graph, q: Tensor, kt: Tensor, mask: Tensor, factor: float) -> Tensor:
    """softmax((q·kᵀ + mask) · factor), as CodeGen has it."""
    return g.softmax(g.mul(g.add(g.matmul(q, kt), mask), factor), axis=-1)


@rule(patterns=[behind_mask], target="any")
def scaled_mask(g: Graph, q: Tensor, kt: Tensor, mask: Tensor, factor: float) -> Tensor:
    """Scale scores and mask one by one, so that an attention is found whose mask is added last.

    What: softmax((q·kᵀ + mask) · factor) as softmax(q·kᵀ · factor + mask · factor), for factors from 0 to 1, with which
    no mask leaves its dtype.
    Numerics: rounding only.
    """
    require(0 < factor <= 1, "the mask times a number beyond 0 to 1 may leave its dtype")
    require(q.rank is not None and mask.rank is not None and mask.rank <= q.rank, "the mask has more axes than scores")
    return g.softmax(g.add(g.mul(g.matmul(q, kt), factor), g.mul(mask, factor)), axis=-1)
