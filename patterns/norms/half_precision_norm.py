"""Norms that compute in float32 what comes in half precision and goes on in it."""

from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require, rule
from .._common.axes import as_half_constant
from ._fused_norms import NormAttributes, any_norm, matched_norm

FLOAT, FLOAT16, BFLOAT16 = 1, 10, 16  # as TensorProto.DataType has them


class Widened(NormAttributes):
    """x in half precision, which is cast to float32 for a norm, and y, what it makes, cast back."""

    x: Tensor
    y: Tensor | Any = None


def between_casts(g: Graph, m: Widened) -> Tensor:
    """A norm of a Cast to float32, which others may read too, and a Cast back."""
    made = any_norm(g, m, g.shared(g.cast(m.x, to=FLOAT)))
    m.y = g.any_of(g.cast(made, to=FLOAT16), g.cast(made, to=BFLOAT16))
    return m.y


@rule(patterns=[between_casts], target="any")
def half_precision_norm(g: Graph, m: Widened) -> Tensor:
    """Let a norm take half precision and give it, where it is cast to float32 before and back behind.

    What: LayerNormalization, SimplifiedLayerNormalization or RMSNormalization whose scale and bias half precision holds
    as they are, as in CLIP's own code and FP32LayerNorm of diffusers.  The node computes in float32 by itself.
    Numerics: rounding only.
    """
    factors = [as_half_constant(m.x, factor) for factor in (m.scale, m.bias) if factor is not None]
    is_held = all(factor is not None and factor.dtype == m.x.dtype for factor in factors)
    require(is_held, "half precision does not hold its scale or bias as they are")
    return without_casts(g, m, factors)


@rule(patterns=[between_casts], target="any", approximate=5e-4)
def half_precision_norm_rounded(g: Graph, m: Widened) -> Tensor:
    """Let such a norm take float16 also where that rounds its scale or bias, as it does Gemma's 1 + weight.

    What: as `half_precision_norm`, for scales and biases that are stored, and that float16 does not hold as they are.
    Numerics: differs by up to 4.9e-4 of what it makes, the rounding of a scale, so it runs only where it is named.
    """
    given = [factor for factor in (m.scale, m.bias) if factor is not None]
    require(m.x.dtype == np.float16 and all(factor.is_constant for factor in given), "its scale or bias is not stored")
    least, most = (float(number) for number in (np.finfo(np.float16).tiny, np.finfo(np.float16).max))
    are_told = all(((least <= abs(x.values)) & (abs(x.values) <= most) | (x.values == 0)).all() for x in given)
    require(are_told, "float16 has no number near its scale or bias")
    return without_casts(g, m, [factor.values.astype(np.float16) for factor in given])


def without_casts(g: Graph, m: Widened, factors: list[Any]) -> Tensor:
    """The norm in the half precision of x."""
    require(m.x.dtype is not None and m.y.dtype == m.x.dtype, "it is not cast back to the half precision it came in")
    require(m.settings.get("stash_type", FLOAT) == FLOAT, "it does not compute in float32")
    made: Tensor = g.op(matched_norm(m.match), m.x, *factors, **m.settings)
    return made
