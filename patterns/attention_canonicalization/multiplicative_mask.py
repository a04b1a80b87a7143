"""Scores that are multiplied by zeros and ones to hide some of them."""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule

DIFFERS = {
    "non_finite": "an infinite score that is hidden makes its row NaN, being multiplied by zero; it is hidden here"
}


class Multiplied(Captures):
    """Scores x, ones for those that are shown and zeros, perhaps made of a truth by a Cast to a dtype, and a number.

    low: what is added where scores are hidden; high: what is taken off there.
    """

    x: Tensor
    shown: Tensor
    truth: Tensor | Any = None
    to: int | Any = None
    low: float | Any = None
    high: float | Any = None


def hidden(g: Graph, m: Multiplied) -> Tensor:
    """softmax(x · shown + low · (1 − shown)), or with a number that is taken off, as GPT-1 has it and GPT-2."""
    m.shown = g.any_of(g.shared(g.cast(m.truth, to=m.to)), g.any_tensor())
    kept, rest = g.mul(m.x, m.shown), g.sub(1.0, m.shown)
    return g.softmax(g.any_of(g.add(kept, g.mul(rest, m.low)), g.sub(kept, g.mul(rest, m.high))), axis=-1)


@rule(patterns=[hidden], target="any", opset=9, differs=DIFFERS)
def multiplicative_mask(g: Graph, m: Multiplied) -> Tensor:
    """Hide scores by a choice that are multiplied by zeros and ones for it, so that an attention is found.

    What: softmax(x · shown + low · (1 − shown)), where shown is a truth made a number, or drawn from a constant of
    zeros and ones.
    Numerics: exact, for finite scores.
    """
    truth = m.truth
    if truth is None or truth.dtype != "bool":
        values = m.shown.drawn_from
        require(values is not None and bool(np.isin(values, (0, 1)).all()), "it may hold others than zeros and ones")
        truth = g.cast(m.shown, to=bool)
    return g.softmax(g.where(truth, m.x, m.low if m.high is None else -m.high), axis=-1)
