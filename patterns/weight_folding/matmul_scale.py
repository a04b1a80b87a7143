"""A number for each column of a linear layer, multiplied with its output, folded into its weights and bias."""

from typing import Any

import numpy as np

from surgeon import Constant, Graph, Tensor, require, rule
from ._channel_weights import Array, WeightedOp, folded_bias, linear, require_column_bias, rounded_product


class ScaledLinear(WeightedOp):
    """A product of matrices, optionally with a bias and a Transpose, and the constant after it."""

    y: Tensor
    perm: list[int] | Any = None
    factor: Constant
    attributes: dict[str, Any] | Any = None


def multiplied(g: Graph, m: ScaledLinear) -> Tensor:
    """(x · w + bias) · factor, optionally with a Transpose in between."""
    made = g.any_of(linear(g, m), g.gemm(m.x, m.w, m.bias, **m.attributes))
    m.y = g.any_of(g.transpose(made, perm=m.perm), made)
    return g.mul(m.y, m.factor)


def for_columns(m: ScaledLinear, columns: int) -> Array:
    """Return the factor of each column.  Refuse a factor along other axes, or one number for all, as attention has."""
    require(
        m.y.rank is not None and m.factor.rank <= m.y.rank,
        "the rank of the product is unknown, or the constant has more axes",
    )
    axis = m.y.rank - 1 if m.perm is None else m.perm.index(m.y.rank - 1)
    shape = (1,) * (m.y.rank - m.factor.rank) + tuple(m.factor.shape)
    wanted = tuple(columns if own == axis else 1 for own in range(m.y.rank))
    require(columns > 1 and shape == wanted, "the constant must have one number for each column of the weights")
    return m.factor.values.reshape(-1).astype(np.float64)


@rule(patterns=[multiplied], target="onnx", opset=7)
def matmul_scale(g: Graph, m: ScaledLinear) -> Tensor:
    """Fold a number for each column after a linear layer into its weights and bias.

    What: (x · w + bias) · c with one number c for each column, as in layer scale (Touvron et al., arXiv:2103.17239;
    ConvNeXt, DINOv2), also after a Transpose.
    Numerics: rounding only.  Computed in float64 and rounded once to the dtype of the weights.  The rule does not match
    if the folded weights of a column have fewer digits in half precision.
    """
    turned = bool((m.attributes or {}).get("transB", 0))
    columns = m.w.shape[0 if turned else -1]
    require_column_bias(m, columns)
    factor = for_columns(m, columns)
    weights = rounded_product(m.w.values, factor[:, None] if turned else factor)
    if weights.dtype == np.float16:
        largest = np.abs(weights).max(axis=int(turned))
        kept = (largest >= np.finfo(np.float16).tiny) | (largest == 0)
        require(bool(kept.all()), "the weights of a column would have fewer digits in half precision")
    bias = None if m.bias is None else g.literal(folded_bias(m.bias, factor, np.zeros(()), m.w.dtype).reshape(-1))
    if m.attributes is not None:
        made: Tensor = g.gemm(m.x, g.literal(weights), bias, **m.attributes)
    else:
        made = g.matmul(m.x, g.literal(weights))
        made = made if bias is None else g.add(made, bias)
    return made if m.perm is None else g.transpose(made, perm=m.perm)
