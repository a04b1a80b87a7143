"""A bias that is added to reshaped scores: masks of windows of an image, biases of its rows and columns."""

from itertools import takewhile
from math import prod
from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, dims, require, rule


class SplitSum(Captures):
    """Scores x, the reshaped scores, one or two tensors added to them, and the sum in the original shape."""

    x: Tensor = dims("... keys")
    split: Tensor = dims("... _")
    mask: Tensor = dims("... _")
    second: Tensor | Any = dims("... _", default=None)
    y: Tensor = dims("... keys")


def in_another_shape(g: Graph, m: SplitSum) -> Tensor:
    """softmax(reshape(reshape(x) + mask)), as in Swin and SAM."""
    m.split = g.reshaped(m.x)
    m.y = g.reshaped(g.any_of(g.add(m.split, m.mask, m.second), g.add(m.split, m.mask)))
    return g.softmax(m.y, axis=-1)


@rule(patterns=[in_another_shape], target="any")
def reshaped_score_bias(g: Graph, m: SplitSum) -> Tensor:
    """Add a bias to scores in their original shape, instead of reshaping the scores for it and back.

    What: softmax(reshape(reshape(x) + mask)), computed in the shape of x.  The bias is repeated and reshaped instead,
    so that the attention rules match.
    Numerics: rounding only.
    """
    masks = [one for one in (m.mask, m.second) if one is not None]
    require(m.y.shape[1:] == m.x.shape[1:], "the sum must have the shape of the scores")
    require(all(one.rank == m.split.rank for one in masks), "the bias must have as many axes as the reshaped scores")
    sizes = zip(*(one.shape for one in masks), strict=True)
    given = [next((size for size in own if size != 1), 1) for own in sizes]
    pairs = zip(reversed(m.x.shape[1:]), reversed(m.split.shape[1:]), strict=False)
    kept = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    ahead, alike = m.split.rank - kept, m.x.rank - kept
    whole = [*m.x.shape[1:alike], *given[ahead:]]
    fixed = [*m.split.shape[1:ahead], *m.x.shape[1:alike], *whole]
    require(all(isinstance(size, int) for size in fixed), "only the first size may be dynamic")
    first: Any = 1
    shape: Any = [-1, *whole]
    if given[0] != m.split.shape[0]:
        rows = g.size_of(m.x, 0)
        one = g.mul(rows, np.array([prod(m.x.shape[1:alike])], np.int64))
        first = g.div(one, np.array([prod(m.split.shape[1:ahead])], np.int64))
        shape = g.concat(
            rows, np.array(whole, np.int64), axis=0
        )  # as many batches as the scores have, which -1 would hide
    added = g.add(*masks) if len(masks) > 1 else masks[0]
    spread = g.reshape(g.spread(added, [first, *m.split.shape[1:ahead], *[1] * kept]), shape)
    return g.softmax(g.add(m.x, spread), axis=-1)
