"""Attention weights that are multiplied by two values separately."""

from typing import Any

from surgeon import Graph, Tensor, dims, require, rule
from .._common.where_masks import SoftmaxWeights, softmax_weights


class TwoValues(SoftmaxWeights):
    """The values for the weights of scores. turned: the result if the heads follow the rows."""

    first: Tensor = dims("batch heads rows _")
    second: Tensor = dims("batch heads rows _")
    weights: Tensor | Any = None
    turned: Tensor | Any = None


def products(g: Graph, m: TwoValues) -> Tensor:
    """concat(softmax(scores) · first, softmax(scores) · second), also with heads after rows.

    Differential transformers have the heads after the rows.
    """
    m.weights = softmax_weights(g, m)  # one tensor, otherwise a NaN guard may precede only one of the products
    made = [g.matmul(m.weights, values) for values in (m.first, m.second)]
    m.turned = g.concat(*(g.heads_first(one) for one in made), axis=-1)
    return g.any_of(g.concat(*made, axis=-1), m.turned)


@rule(patterns=[products], target="any")
def concatenated_values(g: Graph, m: TwoValues) -> Tensor:
    """Multiply the weights of an attention once by two concatenated values.

    What: concat(softmax(scores) · first, softmax(scores) · second) becomes softmax(scores) · concat(first, second).
    The attention rules match this form.  They do not match the original, because its weights have two consumers.
    Numerics: none.
    """
    require(m.scores.rank == 4, "the scores must have the axes batch, head, row, key")
    made = g.matmul(softmax_weights(g, m), g.concat(m.first, m.second, axis=-1))
    return made if m.turned is None else g.heads_first(made)
