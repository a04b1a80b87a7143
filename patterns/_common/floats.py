"""What numbers become in the attributes of a node."""

from collections.abc import Callable
from math import isfinite, sqrt

import numpy as np

from surgeon import Graph, Match, Tensor, require


def is_not_float64(x: Tensor) -> None:
    """Refuse doubles: the attributes of a node are float32, and so are the constants in the standard's own bodies."""
    require(x.dtype != "float64", "the numbers of the one node are float32, too coarse for a double")


def half_to_float32(g: Graph, x: Tensor) -> Tensor:
    """x, cast to float32 where it is of half precision, as norms are computed."""
    return g.cast(x, to="float32") if x.dtype in ("float16", "bfloat16") else x


def narrowed(g: Graph, made: Tensor, x: Tensor) -> Tensor:
    """A result computed from `half_to_float32` tensors, cast back to the dtype of x, one of these tensors."""
    return g.cast(made, to=x.dtype) if x.dtype in ("float16", "bfloat16") else made


def rescaled_for_epsilon(g: Graph, x: Tensor, epsilon: float) -> Tensor:
    """x times a number, so that its norm with the ε that a node can have is the norm of x with this ε.

    Attributes are float32, too coarse for doubles; s · (x − mean) / √(s² · variance + ε) is the same for ε / s².
    """
    if x.dtype != "float64" or not 0 < epsilon < 1e30:
        return x
    stored = float(np.float32(epsilon))
    require(stored > 0, f"the node cannot be told an epsilon of {epsilon:g}")
    return x if stored == epsilon else g.mul(x, np.array(sqrt(stored / epsilon)))


def in_float32(g: Graph, x: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """compute(x), of a float16 in float32: exp(x) − 1 has too few digits left there for a small x."""
    require(x.dtype is not None, "the dtype of x is unknown")
    if x.dtype != "float16":
        return compute(x)
    return g.cast(compute(g.cast(x, to="float32")), to=x.dtype)


def is_relu_exact_clip(match: Match) -> None:
    """Refuse Clip for max(x, 0) or min(x, 0) below opset 11, where a bound that is left out is the largest number."""
    clips = any(node.op == "Clip" for node in match.nodes)
    require(not clips or match.opset > 10, "below opset 11 Clip makes a finite number of infinity")


def has_finite_slopes(alpha: float | None = None, beta: float | None = None) -> None:
    """Refuse slopes that are NaN or infinite: a graph divides by 0, and its NaN may differ from that of one node."""
    require(all(isfinite(number) for number in (alpha, beta) if number is not None), "a slope is not finite")
