"""Conversions of numbers and dtypes that the attributes and kernels of a node require."""

from collections.abc import Callable
from math import isfinite, sqrt

import numpy as np

from surgeon import Graph, Match, Tensor, require


def is_not_float64(x: Tensor) -> None:
    """Refuse doubles: attributes of nodes are float32, and so are constants in the function bodies of the standard."""
    require(x.dtype != "float64", "the fused node has float32 attributes, which are too coarse for float64")


def half_to_float32(g: Graph, x: Tensor) -> Tensor:
    """Cast x to float32 if it has half precision.  Norms compute in float32."""
    return g.cast(x, to="float32") if x.dtype in ("float16", "bfloat16") else x


def narrowed(g: Graph, made: Tensor, x: Tensor) -> Tensor:
    """Cast a result that was computed from `half_to_float32` tensors back to the dtype of x."""
    return g.cast(made, to=x.dtype) if x.dtype in ("float16", "bfloat16") else made


def rescaled_for_epsilon(g: Graph, x: Tensor, epsilon: float) -> Tensor:
    """Multiply x by a number, so that its norm with an ε that fits the attribute equals the norm of x with this ε.

    Attributes are float32, which is too coarse for doubles. s · (x − mean) / √(s² · variance + ε) is the same for ε /
    s².
    """
    if x.dtype != "float64" or not 0 < epsilon < 1e30:
        return x
    stored = float(np.float32(epsilon))
    require(stored > 0, f"epsilon {epsilon:g} does not fit the float32 attribute of the node")
    return x if stored == epsilon else g.mul(x, np.array(sqrt(stored / epsilon)))


def in_float32(g: Graph, x: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """Return compute(x).  A float16 is computed in float32, because exp(x) − 1 loses digits for a small x."""
    require(x.dtype is not None, "the dtype of x is unknown")
    if x.dtype != "float16":
        return compute(x)
    return g.cast(compute(g.cast(x, to="float32")), to=x.dtype)


def is_relu_exact_clip(match: Match) -> None:
    """Refuse Clip for max(x, 0) or min(x, 0) below opset 11: a missing bound means the largest finite number there."""
    clips = any(node.op == "Clip" for node in match.nodes)
    require(not clips or match.opset > 10, "below opset 11 Clip turns infinity into a finite number")


def has_finite_slopes(alpha: float | None = None, beta: float | None = None) -> None:
    """Refuse NaN and infinite slopes: the graph divides by 0 then, and its NaN may differ from the NaN of one node."""
    require(all(isfinite(number) for number in (alpha, beta) if number is not None), "a slope is not finite")
