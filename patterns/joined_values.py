"""Weights of an attention that are multiplied with two values, one after the other."""

from typing import Any

from surgeon import Captures, Graph, Tensor, dims, require, rule
from ._conditions import guarded


class TwoValues(Captures):
    """Values that the weights of these scores meet.

    guarded: the weights, if NaN becomes 0.  turned: what is made of both, where heads stand behind the rows.
    """

    scores: Tensor
    guarded: Tensor | Any = None
    first: Tensor = dims("batch heads rows _")
    second: Tensor = dims("batch heads rows _")
    turned: Tensor | Any = None


def products(g: Graph, m: TwoValues) -> Tensor:
    """softmax(scores) · first beside softmax(scores) · second; or with heads behind rows (differential transformer)."""
    soft = m.guarded = g.softmax(m.scores, axis=-1)
    weights = g.any_of(guarded(g, m.guarded), soft)
    made = [g.matmul(weights, values) for values in (m.first, m.second)]
    m.turned = g.concat(*(g.heads_first(one) for one in made), axis=-1)
    return g.any_of(g.concat(*made, axis=-1), m.turned)


@rule(patterns=[products], target="any")
def joined_values(g: Graph, m: TwoValues) -> Tensor:
    """Multiply the weights of an attention once, with two values beside each other.

    What: softmax(scores) · first beside softmax(scores) · second as softmax(scores) · [first, second]: an attention,
    where there was none as its weights were read twice.
    Numerics: none.
    """
    require(m.scores.rank == 4, "the scores have other axes than batch, heads, rows and keys")
    soft = g.softmax(m.scores, axis=-1)
    weights = soft if m.guarded is None else g.nan_to_zero(soft)
    made = g.matmul(weights, g.concat(m.first, m.second, axis=-1))
    return made if m.turned is None else g.heads_first(made)
