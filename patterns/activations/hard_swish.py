"""HardSwish, the SiLU of MobileNet v3 (Howard et al., arXiv:1905.02244)."""

from surgeon import Graph, Tensor, rule
from .._common.floats import is_not_float64
from .hard_sigmoid import linear


def by_hard_sigmoid(g: Graph, x: Tensor) -> Tensor:
    """x · HardSigmoid(x) with the line x/6 + ½."""
    return g.mul(x, g.hard_sigmoid(x, alpha=1 / 6, beta=0.5))


def by_line(g: Graph, x: Tensor) -> Tensor:
    """x · clip(x/6 + ½, 0, 1)."""
    return g.mul(x, linear(g, x, 1 / 6, 0.5))


def by_relu6(g: Graph, x: Tensor) -> Tensor:
    """x · clip(x + 3, 0, 6) / 6, in any order of product and division."""
    return g.div(g.mul(x, g.clamp(g.add(x, 3.0), 0.0, 6.0)), 6.0)


@rule(patterns=[by_hard_sigmoid, by_line, by_relu6], conditions=[is_not_float64], target="onnx", opset=14)
def hard_swish(g: Graph, x: Tensor) -> Tensor:
    """Fuse x · clip(x/6 + ½, 0, 1) into one HardSwish node.

    What: x times its hard sigmoid, which is already one node or is written with Clip, with Min and Max, or with ReLU6.
    Numerics: rounding only.
    """
    return g.hard_swish(x)
