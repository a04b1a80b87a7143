"""Functions of quantised tensors, for targets without the ops of ONNX Runtime: dequantise, compute, quantise."""

from typing import Any

from surgeon import Captures, Graph, Tensor, rule
from ._qlinear import QLinearUnary, qlinear_pattern


@rule(patterns=[qlinear_pattern("ms_qlinear_sigmoid")], target="any", lacking=True)
def qlinear_sigmoid(g: Graph, m: QLinearUnary) -> Tensor:
    """Write a QLinearSigmoid as DequantizeLinear, Sigmoid and QuantizeLinear.

    What: ONNX Runtime computes a table of 256 numbers with these three ops.
    Numerics: none.
    """
    return m.between(g, g.sigmoid)


@rule(patterns=[qlinear_pattern("ms_qlinear_leaky_relu")], target="any", lacking=True)
def qlinear_leaky_relu(g: Graph, m: QLinearUnary) -> Tensor:
    """Write a QLinearLeakyRelu as DequantizeLinear, LeakyRelu and QuantizeLinear.

    What: ONNX Runtime computes a table of 256 numbers with these three ops.
    Numerics: none.
    """
    return m.between(g, g.leaky_relu, alpha=m.attributes.get("alpha", 0.01))


def joined(g: Graph, y_scale: Tensor, y_zero: Tensor, *parts: Tensor, **attributes: Any) -> Tensor:
    """QLinearConcat."""
    return g.ms_qlinear_concat(y_scale, y_zero, *parts, **attributes)


@rule(patterns=[joined], target="any", lacking=True)
def qlinear_concat(g: Graph, y_scale: Tensor, y_zero: Tensor, *parts: Tensor, **attributes: Any) -> Tensor:
    """Write a QLinearConcat as DequantizeLinear of each part, Concat and QuantizeLinear.

    What: the original op concatenates parts that have the scale and zero point of the result unchanged.
    Numerics: none.
    """
    rows = [parts[place : place + 3] for place in range(0, len(parts), 3)]
    made = [g.dequantize_linear(*row) for row in rows]
    return g.quantize_linear(g.concat(*made, **attributes), y_scale, y_zero)


class Choice(Captures):
    """Two quantised tensors and a condition that selects elements of one of them, with scales and zero points."""

    condition: Tensor
    x: Tensor
    x_scale: Tensor
    x_zero: Tensor
    y: Tensor
    y_scale: Tensor
    y_zero: Tensor
    z_scale: Tensor
    z_zero: Tensor


def chosen(g: Graph, m: Choice) -> Tensor:
    """QLinearWhere."""
    given = m.condition, m.x, m.x_scale, m.x_zero, m.y, m.y_scale, m.y_zero, m.z_scale, m.z_zero
    return g.ms_qlinear_where(*given)


@rule(patterns=[chosen], target="any", lacking=True)
def qlinear_where(g: Graph, m: Choice) -> Tensor:
    """Write a QLinearWhere as DequantizeLinear of both tensors, Where and QuantizeLinear.

    What: ONNX Runtime computes tables of 256 numbers with these ops.  It copies a tensor with the scale and zero point
    of the result unchanged.
    Numerics: none.
    """
    found = [g.dequantize_linear(m.x, m.x_scale, m.x_zero), g.dequantize_linear(m.y, m.y_scale, m.y_zero)]
    return g.quantize_linear(g.where(m.condition, *found), m.z_scale, m.z_zero)
