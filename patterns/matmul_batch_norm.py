"""Batch normalisation at inference of the rows that a product of matrices makes, all of them in one axis for it."""

from typing import Any

from surgeon import Graph, Tensor, dims, require, rule
from ._channels import new_bias, scaled
from .conv_batch_norm import Normalised, as_line, at_inference, norm


class Rows(Normalised):
    """The same of a product of matrices: made, and y as it is shaped again."""

    made: Tensor | Any = None
    flat: Tensor | Any = dims("_ columns", default=None)
    y: Tensor | Any = None
    columns: Any = None
    axis: int = 0


def product_and_norm(g: Graph, m: Rows) -> Tensor:
    """(x · w − mean) / √(variance + ε) · scale + shift for each column, its rows in one axis."""
    m.made = g.matmul(m.x, m.w)
    m.flat = g.any_of(g.reshaped(m.made), g.flatten(m.made, axis=m.axis))
    m.y = g.reshaped(norm(g, m, m.flat))
    return m.y


@rule(patterns=[product_and_norm], conditions=[at_inference], target="onnx", opset=7)
def matmul_batch_norm(g: Graph, m: Rows) -> Tensor:
    """Fold a batch normalisation at inference into the product of matrices before it, and let its rows be.

    What: weights · k, and shift − mean · k behind the product, with k = scale / √(variance + ε), as LeViT has it
    (Graham et al., arXiv:2104.01136).
    Numerics: rounding only; computed in double precision and rounded once to the weights' dtype.
    """
    factor, offset = as_line(m)
    require(m.w.rank == 2 and m.w.shape[1] == factor.size == m.columns, "the columns of the product are not normalised")
    bias = g.literal(new_bias(None, 1.0, offset, m.w.dtype))
    made = g.add(g.matmul(m.x, g.literal(scaled(m.w.values, factor))), bias)
    require(m.y.shape is not None, "the shape of the result is unknown")
    if m.y.shape == m.made.shape:
        return made
    sizes = [size if isinstance(size, int) else -1 for size in m.y.shape]
    require(sizes.count(-1) < 2 and 0 not in sizes, "several sizes of the result are free")
    return g.reshape(made, sizes)
