"""What is taken from the scores of an attention to hide some of them."""

from typing import Any

from surgeon import Captures, Graph, Tensor, require, rule


class Subtracted(Captures):
    """Scores q·kᵀ, what is added to them, perhaps twice, and what they are scaled by; and the mask taken from them."""

    q: Tensor
    kt: Tensor
    bias: Tensor | Any = None
    second: Tensor | Any = None
    factor: float | Any = None
    mask: Tensor


def taken_off(g: Graph, m: Subtracted) -> Tensor:
    """softmax(scores − mask), as XLNet and Funnel have it."""
    return g.softmax(g.sub(g.optional(g.mul(biased(g, m), m.factor)), m.mask), axis=-1)


def biased(g: Graph, m: Subtracted) -> Tensor:
    """Scores and what is added to them."""
    product = g.matmul(m.q, m.kt)
    return g.any_of(g.add(product, m.bias, m.second), g.add(product, m.bias), product)


@rule(patterns=[taken_off], target="any")
def subtracted_mask(g: Graph, m: Subtracted) -> Tensor:
    """Add a mask to scores that is taken from them, so that an attention is found.

    What: softmax(scores − mask) as softmax(scores + −mask), where the mask is no product of matrices, nor one number
    for each row, as the largest of a row is.
    Numerics: rounding only.
    """
    require(any(node.op == "Sub" for node in m.match.nodes), "the mask is added already, by the opposite sign")
    require(not m.mask.is_of_products, "what is taken off is a product of matrices itself")
    require(m.mask.shape is not None and m.mask.shape[-1:] not in ((), (1,)), "it may be one number for each row")
    taken = g.neg(m.mask)
    if m.second is not None and m.factor is None:
        return g.softmax(biased(g, m.but(second=g.add(m.second, taken))), axis=-1)
    return g.softmax(g.add(g.optional(g.mul(biased(g, m), m.factor)), taken), axis=-1)
