"""A mask that is subtracted from the scores of an attention."""

from typing import Any

from surgeon import Captures, Graph, Tensor, require, rule


class Subtracted(Captures):
    """Scores q·kᵀ, one or two tensors added to them, their factor, and the mask that is subtracted."""

    q: Tensor
    kt: Tensor
    bias: Tensor | Any = None
    second: Tensor | Any = None
    factor: float | Any = None
    mask: Tensor


def taken_off(g: Graph, m: Subtracted) -> Tensor:
    """softmax(scores − mask), as in XLNet and Funnel."""
    return g.softmax(g.sub(g.optional(g.mul(biased(g, m), m.factor)), m.mask), axis=-1)


def biased(g: Graph, m: Subtracted) -> Tensor:
    """Scores plus zero, one or two tensors."""
    product = g.matmul(m.q, m.kt)
    return g.any_of(g.add(product, m.bias, m.second), g.add(product, m.bias), product)


@rule(patterns=[taken_off], target="any")
def subtracted_mask(g: Graph, m: Subtracted) -> Tensor:
    """Add the negative of a mask instead of subtracting the mask from scores, so that the attention rules match.

    What: softmax(scores − mask) becomes softmax(scores + −mask).  The mask must not be a product of matrices, nor one
    number for each row, such as the maximum of the row.
    Numerics: rounding only.
    """
    require(any(node.op == "Sub" for node in m.match.nodes), "the mask is added already, with the opposite sign")
    require(not m.mask.is_of_products, "the subtracted tensor is a product of matrices")
    require(
        m.mask.shape is not None and m.mask.shape[-1:] not in ((), (1,)),
        "the subtracted tensor may be one number for each row",
    )
    taken = g.neg(m.mask)
    if m.second is not None and m.factor is None:
        return g.softmax(biased(g, m.but(second=g.add(m.second, taken))), axis=-1)
    return g.softmax(g.add(g.optional(g.mul(biased(g, m), m.factor)), taken), axis=-1)
