"""Norms with inputs and outputs in half precision that compute in float32."""

from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require, rule
from .._common.axes import as_half_constant
from ._fused_norms import NormAttributes, any_norm, matched_norm

FLOAT, FLOAT16, BFLOAT16 = 1, 10, 16  # the values of TensorProto.DataType


class Widened(NormAttributes):
    """x in half precision, cast to float32 for a norm, and y, the output of the norm cast back."""

    x: Tensor
    y: Tensor | Any = None


def between_casts(g: Graph, m: Widened) -> Tensor:
    """A norm of a Cast to float32, which may have other consumers, and a Cast back."""
    made = any_norm(g, m, g.shared(g.cast(m.x, to=FLOAT)))
    m.y = g.any_of(g.cast(made, to=FLOAT16), g.cast(made, to=BFLOAT16))
    return m.y


@rule(patterns=[between_casts], target="any")
def half_precision_norm(g: Graph, m: Widened) -> Tensor:
    """Remove the Casts around a norm whose input is cast to float32 and whose output is cast back to half precision.

    What: LayerNormalization, SimplifiedLayerNormalization or RMSNormalization.  Half precision must represent its scale
    and bias exactly, as in the reference code of CLIP and in FP32LayerNorm of diffusers.  The node itself computes in
    float32.
    Numerics: rounding only.
    """
    factors = [as_half_constant(m.x, factor) for factor in (m.scale, m.bias) if factor is not None]
    is_held = all(factor is not None and factor.dtype == m.x.dtype for factor in factors)
    require(is_held, "half precision does not represent its scale or bias exactly")
    return without_casts(g, m, factors)


@rule(patterns=[between_casts], target="any", approximate=5e-4)
def half_precision_norm_rounded(g: Graph, m: Widened) -> Tensor:
    """Remove such Casts also if float16 rounds the scale or bias of the norm, for example 1 + weight in Gemma.

    What: the same as `half_precision_norm`, for stored scales and biases that float16 does not represent exactly.
    Numerics: differs by up to 4.9e-4 of the output, the rounding of a scale, so the rule runs only if you name it.
    """
    given = [factor for factor in (m.scale, m.bias) if factor is not None]
    require(
        m.x.dtype == np.float16 and all(factor.is_constant for factor in given),
        "it is not float16, or its scale or bias is not constant",
    )
    least, most = (float(number) for number in (np.finfo(np.float16).tiny, np.finfo(np.float16).max))
    are_told = all(((least <= abs(x.values)) & (abs(x.values) <= most) | (x.values == 0)).all() for x in given)
    require(are_told, "its scale or bias is outside the range of normal float16 numbers")
    return without_casts(g, m, [factor.values.astype(np.float16) for factor in given])


def without_casts(g: Graph, m: Widened, factors: list[Any]) -> Tensor:
    """Write the norm in the half precision of x."""
    require(
        m.x.dtype is not None and m.y.dtype == m.x.dtype, "it is not cast back to the half-precision dtype of its input"
    )
    require(m.settings.get("stash_type", FLOAT) == FLOAT, "it does not compute in float32")
    made: Tensor = g.op(matched_norm(m.match), m.x, *factors, **m.settings)
    return made
