"""Batch normalisation at inference of the rows of a product of matrices, in any layout."""

from typing import Any

from surgeon import Graph, Tensor, dims, require, rule
from ._channel_weights import folded_bias, linear, require_column_bias, rounded_product
from .conv_batch_norm import FoldedBatchNorm, affine_coefficients, batch_norm_of, is_inference


class MatMulBatchNorm(FoldedBatchNorm):
    """The same after a product of matrices: the product (made), and its reshaped form (y) or its permutation (perm)."""

    made: Tensor | Any = None
    flat: Tensor | Any = dims("_ columns", default=None)
    y: Tensor | Any = None
    columns: Any = None
    axis: int = 0
    perm: list[int] | Any = None


def product_and_norm(g: Graph, m: MatMulBatchNorm) -> Tensor:
    """(x · w + bias − mean) / √(variance + ε) · scale + shift for each column.  The rows are merged into one axis."""
    m.made = linear(g, m)
    m.flat = g.any_of(g.reshaped(m.made), g.flatten(m.made, axis=m.axis))
    m.y = g.reshaped(batch_norm_of(g, m, m.flat))
    return m.y


def turned_and_norm(g: Graph, m: MatMulBatchNorm) -> Tensor:
    """The same without a Reshape, or after a Transpose that turns columns into channels."""
    m.made = linear(g, m)
    return batch_norm_of(g, m, g.any_of(g.transpose(m.made, perm=m.perm), m.made))


def channels_are_columns(m: MatMulBatchNorm) -> None:
    """Require that the second axis, which a batch normalisation uses, is the axis of the columns."""
    if m.flat is None:
        require(m.made.rank is not None, "the rank of the product is unknown")
        perm = m.perm or [*range(m.made.rank)]
        require(
            len(perm) > 1 and perm[1] == m.made.rank - 1, "the normalisation must be over the columns of the product"
        )


@rule(
    patterns=[product_and_norm, turned_and_norm],
    conditions=[is_inference, channels_are_columns],
    target="onnx",
    opset=7,
)
def matmul_batch_norm(g: Graph, m: MatMulBatchNorm) -> Tensor:
    """Fold a batch normalisation at inference into the product of matrices before it, and keep the layout of its rows.

    What: weights · k, and (bias − mean) · k + shift after the product, with k = scale / √(variance + ε).  LeViT has
    this form (Graham et al., arXiv:2104.01136), also TabNet without a bias, and PointPillars between two Transposes.
    Numerics: rounding only.  Computed in float64 and rounded once to the dtype of the weights.
    """
    factor, offset = affine_coefficients(m)
    require_column_bias(m, m.w.shape[-1])
    columns = factor.size if m.flat is None else m.columns
    require(m.w.shape[1] == factor.size == columns, "the normalisation must be over the columns of the product")
    bias = g.literal(folded_bias(m.bias, factor, offset, m.w.dtype).reshape(-1))
    made: Tensor = g.add(g.matmul(m.x, g.literal(rounded_product(m.w.values, factor))), bias)
    if m.flat is None:
        return made if m.perm is None else g.transpose(made, perm=m.perm)
    require(m.y.shape is not None, "the shape of the result is unknown")
    if m.y.shape == m.made.shape:
        return made
    sizes = [size if isinstance(size, int) else -1 for size in m.y.shape]
    require(sizes.count(-1) < 2 and 0 not in sizes, "several sizes of the result are dynamic, or one is 0")
    return g.reshape(made, sizes)
