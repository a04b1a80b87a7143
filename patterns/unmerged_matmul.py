"""Products of matrices in a batch of several axes, which were one axis for as long as they were multiplied."""

from math import prod
from typing import Any

import numpy as np

from surgeon import Graph, Match, Tensor, require, rule
from ._layouts import reshaped

TURNED = [0, 2, 1]


def merged(g: Graph, x: Tensor, name: str) -> Tensor:
    """A batch of matrices with one axis for the batch."""
    return g.shared(g.capture(name, reshaped(g, x)))


def product(g: Graph, a: Tensor, b: Tensor, left: float, right: float) -> Tensor:
    """A product of two batches, a number on either factor, and the second turned or not."""
    one, two = merged(g, a, "first"), merged(g, b, "second")
    turned = g.capture("turned", g.any_of(g.transpose(two, perm=TURNED), g.transpose(g.mul(two, right), perm=TURNED)))
    return g.matmul(g.any_of(g.mul(one, left), one), g.any_of(g.mul(turned, right), turned, g.mul(two, right), two))


def scores(
    g: Graph, a: Tensor, b: Tensor, left: float, right: float, scale: float, bias: Tensor | None = None
) -> Tensor:
    """The same, perhaps times a number, and perhaps with a tensor added: the scores of an attention."""
    plain = product(g, a, b, left, right)
    cold = g.any_of(g.mul(plain, scale), plain)
    return cold if bias is None else g.any_of(g.add(cold, bias), cold)


def soft_of(g: Graph, x: Tensor, wide: int, narrow: int) -> Tensor:
    """A softmax over each row, in whatever dtype."""
    soft = g.capture("soft", g.softmax(g.any_of(g.cast(x, to=wide), x), axis=-1))
    return g.any_of(g.cast(soft, to=narrow), soft)


def values(g: Graph, a: Tensor, v: Tensor, wide: int, narrow: int) -> Any:
    """Weighted values: the batch of the weights has several axes until before the softmax, or behind it."""
    weights = g.any_of(soft_of(g, merged(g, a, "first"), wide, narrow), merged(g, soft_of(g, a, wide, narrow), "first"))
    return g.matmul(weights, merged(g, v, "third"))


def split_scores(g: Graph, a: Tensor, b: Tensor, bias: Tensor, left: float, right: float, scale: float) -> Tensor:
    """Scores with several axes before their rows again, as a mask with these axes needs them."""
    return g.capture("y", reshaped(g, scores(g, a, b, left, right, scale, bias)))


def split_attention(
    g: Graph,
    a: Tensor,
    b: Tensor,
    v: Tensor,
    bias: Tensor,
    left: float,
    right: float,
    scale: float,
    wide: int,
    narrow: int,
) -> Tensor:
    """Weighted values with several axes before their rows again, from scores that never had them."""
    weights = soft_of(g, scores(g, a, b, left, right, scale, bias), wide, narrow)
    return g.capture("y", reshaped(g, g.matmul(weights, merged(g, v, "third"))))


def are_batches(match: Match) -> None:
    """All factors have the same axes before the last two, and these alone became one, and are several again."""
    whole = match["y" if "y" in match.bound else "a"].shape
    require(whole is not None, "the shape of a factor or the result is unknown")
    for name, before in (("first", "a"), ("second", "b"), ("third", "v")):
        if name in match.bound:
            x, one = match[before].shape, match[name].shape
            require(x is not None and one is not None, "the shape of a factor is unknown")
            require(len(x) > len(one) == 3, "it is not several axes of a factor that become one")
            require(x[-2:] == one[-2:], "the rows or columns of a factor change too")
            require(x[:-2] == whole[:-2], "the factors and the result have other axes before their rows and columns")


def parted(g: Graph, x: Tensor, ahead: list[Any]) -> Tensor:
    """What is added to scores, with these axes in the place of its first; computed from its own shape alone."""
    require(x.shape is not None and x.rank <= 3, "what is added has more axes, or nobody knows which")
    if x.rank < 3 or x.shape[0] == 1:
        return x
    free = [axis for axis, size in enumerate(ahead) if not isinstance(size, int)]
    known = prod(size for size in ahead if isinstance(size, int))
    require(len(free) < 2 and known > 0, "the sizes of several axes that become one are free")
    shape = g.shape(x)
    first = g.div(g.slice(shape, [0], [1], [0]), np.array([known], np.int64))
    sizes = [first if axis in free else np.array([size], np.int64) for axis, size in enumerate(ahead)]
    return g.reshape(x, g.concat(*sizes, g.slice(shape, [1], [3], [0]), axis=0))


def with_one_batch(g: Graph, x: Tensor) -> Tensor:
    """x with one axis for all before the last two."""
    shape = g.shape(x)
    ahead, own = g.slice(shape, [0], [-2], [0]), g.slice(shape, [-2], [np.iinfo(np.int64).max], [0])
    return g.reshape(x, g.concat(g.reduce_prod(ahead, axes=[0], keepdims=1), own, axis=0))


@rule(patterns=[split_scores, values, split_attention], conditions=[are_batches], target="any")
def unmerged_matmul(g: Graph, match: Match, a: Tensor) -> Tensor:
    """Multiply matrices in a batch of several axes as they are, instead of merging the axes and splitting them again.

    What: the scores of an attention, softmax(scores) · v, or both, where batch and heads were made one axis to multiply
    and are two behind it; for the values it is enough that they were two before.  What is added to the scores is
    reshaped instead.
    Numerics: none.
    """
    bound, made = match.bound, a
    if "second" in bound:
        b, axes = match["b"], list(range(a.rank))
        b = g.transpose(b, perm=[*axes[:-2], axes[-1], axes[-2]]) if "turned" in bound else b
        made = g.matmul(
            g.mul(a, match["left"]) if "left" in bound else a, g.mul(b, match["right"]) if "right" in bound else b
        )
        made = g.mul(made, match["scale"]) if "scale" in bound else made
        made = g.add(made, parted(g, match["bias"], list(a.shape[:-2]))) if "bias" in bound else made
    if "soft" in bound:
        made = g.softmax(g.cast(made, to=match["wide"]) if "wide" in bound else made, axis=-1)
        made = g.matmul(g.cast(made, to=match["narrow"]) if "narrow" in bound else made, match["v"])
    return made if "y" in bound else with_one_batch(g, made)
