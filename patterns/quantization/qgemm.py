"""Gemm of quantised matrices, for targets without QGemm of ONNX Runtime."""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule
from ._exact_sums import MAX_EXACT_INTEGER, as_float, as_int32, max_magnitude
from ._scale_zero_point import (
    broadcast_parameter,
    combined_scale,
    constant_minus_zero_point,
    round_and_saturate,
    to_float32,
)
from .integer_matmul import exact_matmul


class Gemm(Captures):
    """Two factors and a bias, and the scale and zero point of the result if it is quantised."""

    a: Tensor
    a_scale: Tensor
    a_zero: Tensor
    b: Tensor
    b_scale: Tensor
    b_zero: Tensor
    c: Tensor | None = None
    y_scale: Tensor | None = None
    y_zero: Tensor | None = None
    settings: dict[str, Any]


def gemm(g: Graph, m: Gemm) -> Tensor:
    """QGemm."""
    given = m.a, m.a_scale, m.a_zero, m.b, m.b_scale, m.b_zero, m.c, m.y_scale, m.y_zero
    return g.ms_qgemm(*given, **m.settings)


def whole(g: Graph, m: Gemm, turned: bool) -> Tensor:
    """Return (a − a_zero) @ (b − b_zero) + c as float32, rounded once if int32 has more digits."""
    parts = exact_matmul(g, m.a, m.b, a_zero=m.a_zero, b_zero=m.b_zero, turned=turned)
    if m.c is None:
        return as_float(g, parts)
    if parts[1] and m.b.is_constant and m.b_zero.is_constant and m.c.is_constant:
        sums = abs(constant_minus_zero_point(m.b, m.b_zero, [-1, 1] if turned else [-1])).sum(axis=1 if turned else 0)
        most = int(sums.max(initial=0)) * max_magnitude(m.a, m.a_zero)
        if most + int(abs(m.c.values.astype(np.int64)).max(initial=0)) <= MAX_EXACT_INTEGER:
            return g.add(parts[0][0], g.literal(m.c.values.astype(np.float32)))
    return g.cast(g.add(as_int32(g, parts), m.c), to="float32")


def scale_of(g: Graph, m: Gemm, alpha: float) -> Tensor:
    """Return alpha · a_scale · b_scale / y_scale, in float32 and in this order, as in ONNX Runtime."""
    if not (m.a_scale.is_constant and m.b_scale.is_constant and (m.y_scale is None or m.y_scale.is_constant)):
        require(alpha == 1, "a scale is not constant, and alpha is not 1")
        y_scale: Any = np.ones((), np.float32) if m.y_scale is None else m.y_scale
        return combined_scale(g, m.a_scale, m.b_scale, y=y_scale, shape=[-1])
    found = np.float32(alpha) * m.a_scale.values.reshape(-1)[:1] * m.b_scale.values.reshape(-1)
    found = found if m.y_scale is None else found / m.y_scale.values.reshape(-1)[:1]
    return g.literal(found.reshape(()) if found.size == 1 else found)


@rule(patterns=[gemm], target="any", lacking=True)
def qgemm(g: Graph, m: Gemm) -> Tensor:
    """Write a QGemm as a MatMul of floats that is scaled, rounded and clipped.

    What: round(((a − a_zero) @ (b − b_zero) + c) · alpha · a_scale · b_scale / y_scale) + y_zero.  Without the scale of
    the result, the result is a float and is not rounded.
    Numerics: none.  The products are integers, and the scales are multiplied as in ONNX Runtime.
    """
    settings = {"alpha": 1.0, "transA": 0, "transB": 0, **m.settings}
    require(not settings["transA"], "the left factor is transposed")
    require(
        (m.y_scale is None) == (m.y_zero is None),
        "the result has a scale without a zero point, or a zero point without a scale",
    )
    made = g.mul(whole(g, m, bool(settings["transB"])), scale_of(g, m, settings["alpha"]))
    if m.y_zero is None:
        return made
    return round_and_saturate(g, made, broadcast_parameter(g, to_float32(g, m.y_zero), m.y_zero, [-1]), m.y_zero)
