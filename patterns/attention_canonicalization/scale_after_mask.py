"""Scores of an attention that are scaled together with their mask."""

from typing import Any

from surgeon import Graph, Tensor, require, rule
from .._common.where_masks import WhereMask, where_masked

LARGEST_HALF, LARGEST = 65504.0, 3e38  # the largest numbers of float16 and of wider floats
WIDE = ("float32", "float64", "bfloat16")


class ScaledMask(WhereMask):
    """Scores q·kᵀ that are scaled together with a mask, or with a number that a condition inserts.

    further, low: for scores with a mask, another mask that is added later, or a number that a condition inserts later.
    """

    q: Tensor
    kt: Tensor
    factor: float
    mask: Tensor | Any = None
    further: Tensor | Any = None
    low: float | Any = None


def behind_mask(g: Graph, m: ScaledMask) -> Tensor:
    """softmax((q·kᵀ + mask) · factor).  Another mask may be added, or a condition may hide some scores."""
    scaled = g.mul(g.add(g.matmul(m.q, m.kt), m.mask), m.factor)
    return g.softmax(g.any_of(scaled, g.add(scaled, m.further), where_masked(g, m, scaled, m.low)), axis=-1)


def behind_condition(g: Graph, m: ScaledMask) -> Tensor:
    """softmax(q·kᵀ, some scores hidden, · factor)."""
    return g.softmax(g.mul(where_masked(g, m, g.matmul(m.q, m.kt), m.low), m.factor), axis=-1)


@rule(patterns=[behind_mask, behind_condition], target="any")
def scale_after_mask(g: Graph, m: ScaledMask) -> Tensor:
    """Scale scores before a mask is added or a condition hides some of them, so that the attention rules match.

    What: softmax((q·kᵀ + mask) · factor) becomes softmax(q·kᵀ · factor + mask · factor).  The factor must be between 0
    and 1, so that the mask stays in the range of its dtype (CodeGen).  Another mask may be added last (Falcon with
    ALiBi, BROS), or a condition may replace some scores by a number (ESPnet, NeMo). softmax(where(c, q·kᵀ, low) ·
    factor) becomes softmax(where(c, q·kᵀ · factor, low · factor)) if low · factor stays in the range of its dtype
    (Informer, GPT-J, ChatGLM).
    Numerics: rounding only.
    """
    q, low = m.q, m.low
    scores = g.mul(g.matmul(q, m.kt), m.factor)
    if m.mask is None:
        most = LARGEST if str(q.dtype) in WIDE else LARGEST_HALF
        require(m.factor > 0, "the factor must be positive, otherwise it reverses the order of the scores")
        require(
            abs(low * m.factor) <= most or m.factor <= 1,
            "the number times the factor may be outside the range of its dtype",
        )
        low *= m.factor
    else:
        require(
            0 < m.factor <= 1,
            "the factor must be above 0 and at most 1, otherwise mask times factor may be outside the range of "
            "its dtype",
        )
        fits = q.rank is not None and m.mask.rank is not None and m.mask.rank <= q.rank
        require(fits, "the mask has more axes than the scores")
        scores = g.add(scores, g.mul(m.mask, m.factor))
    scores = g.optional(g.add(scores, m.further))
    return g.softmax(g.any_of(where_masked(g, m, scores, low), scores), axis=-1)
