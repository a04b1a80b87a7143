"""Scores that are multiplied by zeros and ones to hide some of them."""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule

DIFFERS = {
    "non_finite": "an infinite hidden score times zero is NaN, and so is its row; the rewritten graph hides this score"
}


class Multiplied(Captures):
    """Scores x, ones for visible scores and zeros for hidden ones, optionally cast from a boolean, and a number.

    low: the number added to hidden scores. high: the number subtracted from them.
    """

    x: Tensor
    shown: Tensor
    truth: Tensor | Any = None
    to: int | Any = None
    low: float | Any = None
    high: float | Any = None


def hidden(g: Graph, m: Multiplied) -> Tensor:
    """softmax(x · shown + low · (1 − shown)), or with a subtracted number, as in GPT-1 and GPT-2."""
    m.shown = g.any_of(g.shared(g.cast(m.truth, to=m.to)), g.any_tensor())
    kept, rest = g.mul(m.x, m.shown), g.sub(1.0, m.shown)
    return g.softmax(g.any_of(g.add(kept, g.mul(rest, m.low)), g.sub(kept, g.mul(rest, m.high))), axis=-1)


@rule(patterns=[hidden], target="any", opset=9, differs=DIFFERS)
def multiplicative_mask(g: Graph, m: Multiplied) -> Tensor:
    """Hide scores with Where instead of multiplying them by zeros and ones, so that the attention rules match.

    What: softmax(x · shown + low · (1 − shown)). shown is a boolean cast to a number, elements of a constant of zeros
    and ones, or of an input that is declared as such, with `--assume "NAME: mask"` (Megatron).
    Numerics: exact for finite scores.
    """
    truth = m.truth
    if truth is None or truth.dtype != "bool":
        values = m.shown.drawn_from
        is_constant = values is not None and bool(np.isin(values, (0, 1)).all())
        require(is_constant or m.shown.holds("mask"), "the mask may contain numbers other than 0 and 1")
        truth = g.cast(m.shown, to=bool)
    return g.softmax(g.where(truth, m.x, m.low if m.high is None else -m.high), axis=-1)
