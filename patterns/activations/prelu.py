"""PReLU, a leaky ReLU whose slopes are learned (He et al., arXiv:1502.01852)."""

import numpy as np

from surgeon import Constant, Graph, Tensor, require, rule
from .._common.floats import is_relu_exact_clip


def by_where(g: Graph, x: Tensor, slope: Constant) -> Tensor:
    """x above zero, slope · x below."""
    return g.by_sign(x, x, g.mul(slope, x))


def by_parts(g: Graph, x: Tensor, slope: Constant) -> Tensor:
    """max(x, 0) + slope · min(x, 0)."""
    return g.add(g.relu_of(x), g.mul(slope, g.negative_part(x)))


def by_relus(g: Graph, x: Tensor, slope: Constant) -> Tensor:
    """relu(x) − slope · relu(−x)."""
    return g.sub(g.relu(x), g.mul(slope, g.relu(g.neg(x))))


def finite_slopes(slope: Constant) -> None:
    """Require finite slopes.  If a slope is infinite, only Where equals PRelu; the other forms give NaN above zero."""
    require(bool(np.isfinite(slope.values).all()), "the slopes must be finite")


def broadcasts_one_way(x: Tensor, slope: Constant) -> None:
    """PRelu broadcasts the slope to x, never x to the slope (ONNX spec, PRelu-7)."""
    require(x.shape is not None and slope.shape is not None, "the shapes of x and slope must be known")
    require(slope.rank <= x.rank, "the slope has more axes than x")
    for size, wanted in zip(slope.shape[::-1], x.shape[::-1], strict=False):
        require(size in (1, wanted), "the slope must broadcast to the shape of x")


@rule(
    patterns=[by_where, by_parts, by_relus],
    conditions=[broadcasts_one_way, finite_slopes, is_relu_exact_clip],
    target="onnx",
    opset=7,
    dtypes=("float16", "bfloat16", "float32"),  # no kernel supports PRelu for float64
)
def prelu(g: Graph, x: Tensor, slope: Constant) -> Tensor:
    """Fuse the parametric ReLU into one PRelu node.

    What: x above zero and slope · x below, written with Where, as max(x, 0) + slope · min(x, 0), or with ReLUs.  The
    slope must broadcast to x.
    Numerics: rounding only.
    """
    return g.prelu(x, slope)


@prelu.on("decomposed")
def _(g: Graph, x: Tensor, slope: Constant) -> Tensor:
    return g.where(g.greater(x, 0.0), x, g.mul(slope, x))
