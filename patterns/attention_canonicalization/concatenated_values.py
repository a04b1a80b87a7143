"""Weights of an attention that are multiplied with two values, one after the other."""

from typing import Any

from surgeon import Graph, Tensor, dims, require, rule
from .._common.where_masks import SoftmaxWeights, softmax_weights


class TwoValues(SoftmaxWeights):
    """Values that the weights of scores meet.  turned: what is made of both, where heads stand behind the rows."""

    first: Tensor = dims("batch heads rows _")
    second: Tensor = dims("batch heads rows _")
    weights: Tensor | Any = None
    turned: Tensor | Any = None


def products(g: Graph, m: TwoValues) -> Tensor:
    """softmax(scores) · first beside softmax(scores) · second; or with heads behind rows (differential transformer)."""
    m.weights = softmax_weights(g, m)  # one tensor: else a guard against NaN may stand before one product only
    made = [g.matmul(m.weights, values) for values in (m.first, m.second)]
    m.turned = g.concat(*(g.heads_first(one) for one in made), axis=-1)
    return g.any_of(g.concat(*made, axis=-1), m.turned)


@rule(patterns=[products], target="any")
def concatenated_values(g: Graph, m: TwoValues) -> Tensor:
    """Multiply the weights of an attention once, with two values beside each other.

    What: softmax(scores) · first beside softmax(scores) · second as softmax(scores) · [first, second]: an attention,
    where there was none as its weights were read twice.
    Numerics: none.
    """
    require(m.scores.rank == 4, "the scores have other axes than batch, heads, rows and keys")
    made = g.matmul(softmax_weights(g, m), g.concat(m.first, m.second, axis=-1))
    return made if m.turned is None else g.heads_first(made)
