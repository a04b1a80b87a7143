"""Batch normalisation at inference of the rows of a product of matrices, in any layout."""

from typing import Any

from surgeon import Graph, Tensor, dims, require, rule
from ._channel_weights import folded_bias, linear, require_column_bias, rounded_product
from .conv_batch_norm import FoldedBatchNorm, affine_coefficients, batch_norm_of, is_inference


class MatMulBatchNorm(FoldedBatchNorm):
    """The same after a product of matrices (made).

    flat, y: the product as rows, and the result in its final shape.
    laid, target, perm: the product in the shape of the tensor target, and its permutation.
    """

    made: Tensor | Any = None
    flat: Tensor | Any = dims("_ columns", default=None)
    y: Tensor | Any = None
    columns: Any = None
    axis: int = 0
    laid: Tensor | Any = None
    target: Tensor | Any = None
    perm: list[int] | Any = None


def product_and_norm(g: Graph, m: MatMulBatchNorm) -> Tensor:
    """(x · w + bias − mean) / √(variance + ε) · scale + shift for each column.  The rows are merged into one axis."""
    m.made = linear(g, m)
    m.flat = g.any_of(g.reshaped(m.made), g.flatten(m.made, axis=m.axis))
    m.y = g.reshaped(batch_norm_of(g, m, m.flat))
    return m.y


def turned_and_norm(g: Graph, m: MatMulBatchNorm) -> Tensor:
    """The same after a Reshape or a Transpose that turns columns into channels, after both, or after none."""
    m.made = linear(g, m)
    m.laid = g.reshape(m.made, m.target)
    laid = g.any_of(m.laid, m.made)
    return batch_norm_of(g, m, g.any_of(g.transpose(laid, perm=m.perm), laid))


def channels_are_columns(m: MatMulBatchNorm) -> None:
    """Require that the second axis, which a batch normalisation uses, is the axis of the columns."""
    if m.flat is None:
        laid = m.made if m.laid is None else m.laid
        require(laid.shape is not None, "the shape of the product is unknown")
        last = laid.rank - 1
        if m.laid is not None:  # behind the columns, a Reshape may add axes of size 1
            last = max((axis for axis, size in enumerate(laid.shape) if size != 1), default=0)
            require(laid.shape[last] == m.w.shape[-1], "the Reshape must keep the columns of the product")
        perm = m.perm or [*range(laid.rank)]
        require(len(perm) > 1 and perm[1] == last, "the normalisation must be over the columns of the product")


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
        made = made if m.laid is None else g.reshape(made, m.target)
        return made if m.perm is None else g.transpose(made, perm=m.perm)
    require(m.y.shape is not None, "the shape of the result is unknown")
    if m.y.shape == m.made.shape:
        return made
    sizes = [size if isinstance(size, int) else -1 for size in m.y.shape]
    require(sizes.count(-1) < 2 and 0 not in sizes, "several sizes of the result are dynamic, or one is 0")
    return g.reshape(made, sizes)
