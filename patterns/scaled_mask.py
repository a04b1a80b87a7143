"""Scores of an attention that are scaled with the mask that was added to them."""

from typing import Any

from surgeon import Graph, Tensor, require, rule
from ._conditions import Conditioned, choose, chosen

LARGEST_HALF, LARGEST = 65504.0, 3e38  # numbers that float16 and wider floats hold
WIDE = ("float32", "float64", "bfloat16")


class ScaledMask(Conditioned):
    """Scores q·kᵀ with a mask, scaled; `further` is added then, or a condition puts `low` in the place of some."""

    q: Tensor
    kt: Tensor
    mask: Tensor
    factor: float
    further: Tensor | Any = None
    low: float | Any = None


def scaled(g: Graph, m: ScaledMask) -> Tensor:
    """(q·kᵀ + mask) · factor."""
    return g.mul(g.add(g.matmul(m.q, m.kt), m.mask), m.factor)


def behind_mask(g: Graph, m: ScaledMask) -> Tensor:
    """softmax((q·kᵀ + mask) · factor), as CodeGen has it."""
    return g.softmax(scaled(g, m), axis=-1)


def before_mask(g: Graph, m: ScaledMask) -> Tensor:
    """softmax((q·kᵀ + bias) · factor + mask), as Falcon has it with ALiBi."""
    return g.softmax(g.add(scaled(g, m), m.further), axis=-1)


def before_condition(g: Graph, m: ScaledMask) -> Tensor:
    """The same, where a condition hides some of the scores then, as encoders of speech with relative places have it."""
    return g.softmax(chosen(g, m, scaled(g, m), m.low), axis=-1)


class HiddenScores(Conditioned):
    """Scores q·kᵀ, in the place of some of which a condition puts `low`, scaled then."""

    q: Tensor
    kt: Tensor
    low: float
    factor: float


def behind_condition(g: Graph, m: HiddenScores) -> Tensor:
    """softmax(q·kᵀ, some of them hidden, · factor), as Informer and GPT-J have it."""
    return g.softmax(g.mul(chosen(g, m, g.matmul(m.q, m.kt), m.low), m.factor), axis=-1)


def parted(g: Graph, m: ScaledMask) -> Tensor:
    """q·kᵀ · factor + mask · factor."""
    q, mask = m.q, m.mask
    require(0 < m.factor <= 1, "the mask times a number beyond 0 to 1 may leave its dtype")
    require(q.rank is not None and mask.rank is not None and mask.rank <= q.rank, "the mask has more axes than scores")
    return g.add(g.mul(g.matmul(q, m.kt), m.factor), g.mul(mask, m.factor))


@rule(patterns=[behind_mask, before_mask], target="any")
def scaled_mask(g: Graph, m: ScaledMask) -> Tensor:
    """Scale scores and mask one by one, so that an attention is found whose mask is added last.

    What: softmax((q·kᵀ + mask) · factor) as softmax(q·kᵀ · factor + mask · factor), for factors from 0 to 1, with which
    no mask leaves its dtype; also where another mask is added last (Falcon with ALiBi, BROS).
    Numerics: rounding only.
    """
    scores = parted(g, m)
    return g.softmax(scores if m.further is None else g.add(scores, m.further), axis=-1)


@rule(patterns=[before_condition], target="any")
def hidden_scaled_mask(g: Graph, m: ScaledMask) -> Tensor:
    """The same for scores of which a condition hides some before the softmax.

    What: as `scaled_mask`, with a number in the place of some of the scores (ESPnet, NeMo).
    Numerics: rounding only.
    """
    return g.softmax(choose(g, m, parted(g, m), m.low), axis=-1)


@rule(patterns=[behind_condition], target="any")
def scaled_hidden_scores(g: Graph, m: HiddenScores) -> Tensor:
    """Scale scores before a condition hides some of them, so that an attention is found.

    What: softmax(where(c, q·kᵀ, low) · factor) as softmax(where(c, q·kᵀ · factor, low · factor)), for factors with
    which the low number stays in its dtype (Informer, GPT-J, ChatGLM).
    Numerics: rounding only.
    """
    most = LARGEST if str(m.q.dtype) in WIDE else LARGEST_HALF
    require(m.factor > 0, "the factor turns the order of the scores")
    require(abs(m.low * m.factor) <= most or m.factor <= 1, "the number times the factor may leave its dtype")
    return g.softmax(choose(g, m, g.mul(g.matmul(m.q, m.kt), m.factor), m.low * m.factor), axis=-1)
