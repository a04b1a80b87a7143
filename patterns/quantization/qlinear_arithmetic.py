"""Sums and products of two quantised tensors, for targets without QLinearAdd and QLinearMul of ONNX Runtime."""

import numpy as np

from surgeon import Graph, Tensor, require, rule
from ._qlinear import QLinearBinary, fused_multiply_add, neighbouring_floats
from ._scale_zero_point import round_and_saturate, to_float32


def added(g: Graph, m: QLinearBinary) -> Tensor:
    """QLinearAdd."""
    return g.ms_qlinear_add(m.a, m.a_scale, m.a_zero, m.b, m.b_scale, m.b_zero, m.y_scale, m.y_zero)


@rule(patterns=[added], target="any", lacking=True)
def qlinear_add(g: Graph, m: QLinearBinary) -> Tensor:
    """Write a QLinearAdd as a sum of dequantised tensors, or of the integers themselves.

    What: round((a − a_zero) · a_scale / y_scale + (b − b_zero) · b_scale / y_scale) + y_zero.  The rule computes all
    65,536 pairs of summands, both as the kernel of ONNX Runtime does, with one rounding for multiply and add, and in
    each possible form.  It writes the first form with the same integers for all pairs: DequantizeLinear, Add and
    QuantizeLinear if TensorRT supports them, otherwise arithmetic on floats that are integers.
    Numerics: none.  If no form gives the same integers, some sum is too close to the middle of two steps, and the rule
    does not match.
    """
    (sa, sb, sy), (za, zb, zy), (a, b) = m.scales(), m.zeros(), m.every()
    with np.errstate(all="ignore"):
        ra, rb = sa / sy, sb / sy
        rest = np.float32(zy - fused_multiply_add(ra, za, rb * zb))  # as in MlasQLinearAddKernelHelper
        wanted = m.cut(fused_multiply_add(a, ra, fused_multiply_add(b, rb, rest)))
        if m.takes_pairs() and (m.cut((a * sa + b * sb) / sy) == wanted).all():
            return m.between(g, g.add(*m.dequantized(g)))
        for constant in neighbouring_floats(rest):
            if (m.cut((b * rb + constant) + a * ra) == wanted).all():
                inner, factor, outer, other = m.b, rb, m.a, ra
            elif (m.cut((a * ra + constant) + b * rb) == wanted).all():
                inner, factor, outer, other = m.a, ra, m.b, rb
            else:
                continue
            part = g.add(g.mul(to_float32(g, inner), factor), constant)
            return round_and_saturate(g, g.add(part, g.mul(to_float32(g, outer), other)), None, m.a)
    require(False, "some sums are too close to the middle of two steps")
    raise AssertionError("unreachable: require refuses it")


def multiplied(g: Graph, m: QLinearBinary) -> Tensor:
    """QLinearMul."""
    return g.ms_qlinear_mul(m.a, m.a_scale, m.a_zero, m.b, m.b_scale, m.b_zero, m.y_scale, m.y_zero)


@rule(patterns=[multiplied], target="any", lacking=True)
def qlinear_mul(g: Graph, m: QLinearBinary) -> Tensor:
    """Write a QLinearMul as a product of dequantised tensors, or of the integers themselves.

    What: round((a − a_zero) · (b − b_zero) · a_scale · b_scale / y_scale + y_zero), as in the kernel of ONNX Runtime.
    The rule writes DequantizeLinear, Mul and QuantizeLinear if TensorRT supports them and all 65,536 pairs give the
    same.
    Numerics: none.
    """
    (sa, sb, sy), (za, zb, zy), (a, b) = m.scales(), m.zeros(), m.every()
    with np.errstate(all="ignore"):
        factor = np.float32(np.float32(sa * sb) / sy)
        wanted = m.cut(((a - za) * (b - zb)) * factor + zy)
        if m.takes_pairs() and (m.cut((a * sa) * (b * sb) / sy) == wanted).all():
            return m.between(g, g.mul(*m.dequantized(g)))
    left, right = (
        to_float32(g, x) if not zero else g.sub(to_float32(g, x), zero) for x, zero in ((m.a, za), (m.b, zb))
    )
    made = g.mul(g.mul(left, right), factor)
    return round_and_saturate(g, g.add(made, zy) if zy else made, None, m.a)
