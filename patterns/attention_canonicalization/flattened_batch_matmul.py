"""Products of matrices in a batch of several axes that are merged only for the product."""

from collections.abc import Sequence
from math import prod
from typing import Any

from surgeon import Graph, Tensor, require, rule
from ._merged_batch import MergedBatch, with_merged_batch, with_split_batch


def merged(g: Graph, x: Any) -> Tensor:
    """A batch of matrices with a single batch axis."""
    return g.shared(g.reshaped(x))


def scores(g: Graph, m: MergedBatch, a: Tensor, b: Tensor, perm: Sequence[int] = (0, 2, 1)) -> Tensor:
    """A product of two batches, with an optional Transpose of the second, optional factors, and an optional bias."""
    first, second = (g.optional(g.cast(x, to=m.to)) for x in (a, b))
    m.turned = g.transpose(g.optional(g.mul(second, m.within)), perm=perm)
    turned = g.any_of(m.turned, g.cast(m.turned, to=m.to))
    one, two = g.optional(g.mul(first, m.left)), g.optional(g.mul(g.any_of(turned, second), m.right))
    return g.optional(g.add(g.optional(g.mul(g.matmul(one, two), m.scale)), m.bias))


def soft_of(g: Graph, m: MergedBatch, x: Tensor) -> Tensor:
    """A softmax over each row, in any dtype."""
    m.soft = g.softmax(g.optional(g.cast(x, to=m.wide)), axis=-1)
    return g.optional(g.cast(m.soft, to=m.narrow))


def merged_scores(g: Graph, m: MergedBatch) -> Tensor:
    """The scores of factors with a merged batch."""
    m.first, m.second = merged(g, m.a), merged(g, m.b)
    return scores(g, m, m.first, m.second)


def weighted(g: Graph, m: MergedBatch, weights: Tensor, v: Any) -> Tensor:
    """Weighted values."""
    return g.matmul(weights, g.optional(g.cast(v, to=m.into)))


def values(g: Graph, m: MergedBatch) -> Tensor:
    """Weighted values.  The batch of the weights has several axes before the softmax, or after it."""
    m.first = merged(g, m.a)
    before = soft_of(g, m, m.first)
    m.first, m.third = merged(g, soft_of(g, m, m.a)), merged(g, m.v)
    return weighted(g, m, g.any_of(before, m.first), m.third)


def split_scores(g: Graph, m: MergedBatch) -> Tensor:
    """Scores with several axes before their rows again, as a mask with these axes requires."""
    m.y = g.reshaped(merged_scores(g, m))
    return m.y


def split_weights(g: Graph, m: MergedBatch) -> Tensor:
    """A softmax with several axes before its rows again."""
    m.first = merged(g, m.a)
    m.y = g.reshaped(soft_of(g, m, m.first))
    return m.y


def split_attention(g: Graph, m: MergedBatch) -> Tensor:
    """Weighted values with several axes before their rows again, from scores that never had these axes."""
    m.third = merged(g, m.v)
    m.y = g.reshaped(g.optional(g.cast(weighted(g, m, soft_of(g, m, merged_scores(g, m)), m.third), to=m.out)))
    return m.y


def are_batches(m: MergedBatch) -> None:
    """Require several axes that are merged, in an attention that the attention rules do not match as it is."""
    require(len(m.batch) > 1, "the factor must have several batch axes that are merged")
    is_found = m.soft is not None and m.b is not None and isinstance(m.batch[0], int)
    is_found = is_found and not isinstance(m.batch[1], int)
    require(not is_found, "the heads precede a dynamic batch, so the attention rules match only the merged axes")


@rule(patterns=[split_scores, split_weights, values, split_attention], conditions=[are_batches], target="any")
def flattened_batch_matmul(g: Graph, m: MergedBatch) -> Tensor:
    """Multiply matrices in a batch of several axes directly, instead of merging the axes and splitting them again.

    What: scores of an attention, their softmax, softmax(scores) · v, or all three, with a batch and heads that are
    merged before and split after.  For the values, two axes before are sufficient.  The bias is reshaped instead.
    Numerics: rounding only if half precision is cast in between, otherwise none.
    """
    made = m.a
    if m.b is not None:
        *ahead, last, end = range(m.a.rank)
        numbers = [number for number in (m.within, m.right) if number is not None]
        bias = None if m.bias is None else with_split_batch(g, m.bias, m.batch, m.a)
        again = m.but(within=None, right=prod(numbers) if numbers else None, bias=bias)
        made = scores(g, again, m.a, b=m.b, perm=[*ahead, end, last])
    if m.soft is not None:
        made = g.optional(g.cast(g.optional(weighted(g, m, soft_of(g, m, made), m.v)), to=m.out))
    return with_merged_batch(g, made) if m.y is None else made
