"""Softmax of quantised tensors, for targets without QLinearSoftmax of ONNX Runtime."""

from surgeon import Graph, Tensor, require, rule
from ._matmul_params import is_single_value
from ._qlinear import QLinearUnary, qlinear_pattern


@rule(patterns=[qlinear_pattern("ms_qlinear_softmax")], target="any", lacking=True)
def qlinear_softmax(g: Graph, m: QLinearUnary) -> Tensor:
    """Write a QLinearSoftmax along the last axis as DequantizeLinear, Softmax and QuantizeLinear.

    What: ONNX Runtime reads the exponential of each number from a table, sums the exponentials, and divides integers.
    So the scale of the result must be 1 divided by an integer, such as 1/256.
    Numerics: rounding only.
    """
    steps = 1 / m.y_scale.values.reshape(-1)[0] if m.y_scale.is_constant and is_single_value(m.y_scale) else 0.5
    require(float(steps).is_integer(), "the scale of the result must be 1 divided by an integer")
    axis = m.attributes.get("axis", -1)
    require(m.x.rank is not None and axis % m.x.rank == m.x.rank - 1, "it must be along the last axis")
    return m.between(g, g.softmax, axis=-1)
