"""Scores of an attention that are scaled with the mask that was added to them, or with what hides some of them."""

from typing import Any

from surgeon import Graph, Tensor, require, rule
from .._common.where_masks import WhereMask, where_masked

LARGEST_HALF, LARGEST = 65504.0, 3e38  # numbers that float16 and wider floats hold
WIDE = ("float32", "float64", "bfloat16")


class ScaledMask(WhereMask):
    """Scores q·kᵀ that are scaled with a mask, or with a number that a condition put in the place of some of them.

    further, low: what is added to those with a mask then, or what a condition puts in the place of some.
    """

    q: Tensor
    kt: Tensor
    factor: float
    mask: Tensor | Any = None
    further: Tensor | Any = None
    low: float | Any = None


def behind_mask(g: Graph, m: ScaledMask) -> Tensor:
    """softmax((q·kᵀ + mask) · factor), to which another mask may be added, or of which a condition may hide some."""
    scaled = g.mul(g.add(g.matmul(m.q, m.kt), m.mask), m.factor)
    return g.softmax(g.any_of(scaled, g.add(scaled, m.further), where_masked(g, m, scaled, m.low)), axis=-1)


def behind_condition(g: Graph, m: ScaledMask) -> Tensor:
    """softmax(q·kᵀ, some of them hidden, · factor)."""
    return g.softmax(g.mul(where_masked(g, m, g.matmul(m.q, m.kt), m.low), m.factor), axis=-1)


@rule(patterns=[behind_mask, behind_condition], target="any")
def scale_after_mask(g: Graph, m: ScaledMask) -> Tensor:
    """Scale scores by themselves, before a mask is added or a condition hides some, so that an attention is found.

    What: softmax((q·kᵀ + mask) · factor) as softmax(q·kᵀ · factor + mask · factor), for factors from 0 to 1, with which
    no mask leaves its dtype (CodeGen); also where another mask is added last (Falcon with ALiBi, BROS), or a condition
    puts a number in the place of some of the scores (ESPnet, NeMo).  softmax(where(c, q·kᵀ, low) · factor) as
    softmax(where(c, q·kᵀ · factor, low · factor)), for factors with which the low number stays in its dtype (Informer,
    GPT-J, ChatGLM).
    Numerics: rounding only.
    """
    q, low = m.q, m.low
    scores = g.mul(g.matmul(q, m.kt), m.factor)
    if m.mask is None:
        most = LARGEST if str(q.dtype) in WIDE else LARGEST_HALF
        require(m.factor > 0, "the factor turns the order of the scores")
        require(abs(low * m.factor) <= most or m.factor <= 1, "the number times the factor may leave its dtype")
        low *= m.factor
    else:
        require(0 < m.factor <= 1, "the mask times a number beyond 0 to 1 may leave its dtype")
        fits = q.rank is not None and m.mask.rank is not None and m.mask.rank <= q.rank
        require(fits, "the mask has more axes than scores")
        scores = g.add(scores, g.mul(m.mask, m.factor))
    scores = g.optional(g.add(scores, m.further))
    return g.softmax(g.any_of(where_masked(g, m, scores, low), scores), axis=-1)
