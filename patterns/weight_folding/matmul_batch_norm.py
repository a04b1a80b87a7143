"""Batch normalisation at inference of the rows that a product of matrices makes, in whatever order they come to it."""

from typing import Any

from surgeon import Graph, Tensor, dims, require, rule
from ._channel_weights import folded_bias, linear, require_column_bias, rounded_product
from .conv_batch_norm import FoldedBatchNorm, affine_coefficients, batch_norm_of, is_inference


class MatMulBatchNorm(FoldedBatchNorm):
    """The same of a product of matrices: made, and y as it is shaped again, or perm, the order of its axes."""

    made: Tensor | Any = None
    flat: Tensor | Any = dims("_ columns", default=None)
    y: Tensor | Any = None
    columns: Any = None
    axis: int = 0
    perm: list[int] | Any = None


def product_and_norm(g: Graph, m: MatMulBatchNorm) -> Tensor:
    """(x · w + bias − mean) / √(variance + ε) · scale + shift for each column, its rows in one axis."""
    m.made = linear(g, m)
    m.flat = g.any_of(g.reshaped(m.made), g.flatten(m.made, axis=m.axis))
    m.y = g.reshaped(batch_norm_of(g, m, m.flat))
    return m.y


def turned_and_norm(g: Graph, m: MatMulBatchNorm) -> Tensor:
    """The same of a matrix as it is, or behind a Transpose that makes channels of the columns."""
    m.made = linear(g, m)
    return batch_norm_of(g, m, g.any_of(g.transpose(m.made, perm=m.perm), m.made))


def channels_are_columns(m: MatMulBatchNorm) -> None:
    """The second axis, which a batch normalisation goes by, is that of the columns."""
    if m.flat is None:
        require(m.made.rank is not None, "how many axes the product has is unknown")
        perm = m.perm or [*range(m.made.rank)]
        require(len(perm) > 1 and perm[1] == m.made.rank - 1, "the columns of the product are not normalised")


@rule(
    patterns=[product_and_norm, turned_and_norm],
    conditions=[is_inference, channels_are_columns],
    target="onnx",
    opset=7,
)
def matmul_batch_norm(g: Graph, m: MatMulBatchNorm) -> Tensor:
    """Fold a batch normalisation at inference into the product of matrices before it, and let its rows be.

    What: weights · k, and (bias − mean) · k + shift behind the product, with k = scale / √(variance + ε), as LeViT has
    it (Graham et al., arXiv:2104.01136), TabNet without a bias, and PointPillars between two Transposes.
    Numerics: rounding only; computed in double precision and rounded once to the weights' dtype.
    """
    factor, offset = affine_coefficients(m)
    require_column_bias(m, m.w.shape[-1])
    columns = factor.size if m.flat is None else m.columns
    require(m.w.shape[1] == factor.size == columns, "the columns of the product are not normalised")
    bias = g.literal(folded_bias(m.bias, factor, offset, m.w.dtype).reshape(-1))
    made: Tensor = g.add(g.matmul(m.x, g.literal(rounded_product(m.w.values, factor))), bias)
    if m.flat is None:
        return made if m.perm is None else g.transpose(made, perm=m.perm)
    require(m.y.shape is not None, "the shape of the result is unknown")
    if m.y.shape == m.made.shape:
        return made
    sizes = [size if isinstance(size, int) else -1 for size in m.y.shape]
    require(sizes.count(-1) < 2 and 0 not in sizes, "several sizes of the result are free")
    return g.reshape(made, sizes)
