"""GELU in the forms that exporters write: exact, with tanh, and quick (Hendrycks and Gimpel, arXiv:1606.08415)."""

from math import pi, sqrt
from typing import Any

from surgeon import Graph, Tensor, require, rule
from .._common.floats import is_not_float64


def exact(g: Graph, x: Tensor) -> Tensor:
    """x · ½ · (1 + erf(x/√2))."""
    return g.mul(x, 0.5, g.add(g.erf(g.div(x, sqrt(2))), 1.0))


def complement(g: Graph, x: Tensor) -> Tensor:
    """x · ½ · erfc(−x/√2), where erfc(z) is 1 − erf(z)."""
    return g.mul(x, 0.5, g.sub(1.0, g.erf(g.div(x, -sqrt(2)))))


def placeholder(g: Graph, x: Tensor) -> Any:
    """`aten::gelu`, which some exports leave in the graph."""
    return g.op("aten::gelu", x, approximate="none")


@rule(patterns=[exact, complement, placeholder])
def gelu(g: Graph, x: Tensor) -> Tensor:
    """Fuse the exact GELU into one Gelu node.

    What: x · ½ · (1 + erf(x/√2)), with any order and grouping of the operands and any spelling of √2.
    Numerics: rounding only.
    """
    return g.ms_gelu(x)


@gelu.on("onnx", opset=20)
def _(g: Graph, x: Tensor) -> Tensor:
    """ai.onnx::Gelu."""
    return g.gelu(x)


def tanh_approximation(g: Graph, x: Tensor) -> Tensor:
    """x · ½ · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))."""
    cubic = g.any_of(g.mul(0.044715, g.pow(x, 3)), g.mul(0.044715, x, x, x), g.mul(0.044715, g.mul(x, g.pow(x, 2))))
    inner = g.mul(sqrt(2 / pi), g.add(x, cubic))
    return g.mul(x, 0.5, g.add(g.tanh(inner), 1.0))


def tanh_factored(g: Graph, x: Tensor) -> Tensor:
    """The same with x factored out: tanh(√(2/π) · x · (1 + 0.044715 · x²))."""
    square = g.any_of(g.mul(0.044715, x, x), g.mul(0.044715, g.pow(x, 2)))
    inner = g.mul(sqrt(2 / pi), x, g.add(1.0, square))
    return g.mul(x, 0.5, g.add(g.tanh(inner), 1.0))


def tanh_placeholder(g: Graph, x: Tensor) -> Any:
    """`aten::gelu` with the argument for tanh, which an export must not drop."""
    return g.op("aten::gelu", x, approximate="tanh")


def one_node(g: Graph, x: Tensor) -> Tensor:
    """com.microsoft::FastGelu."""
    return g.ms_fast_gelu(x)


@rule(
    patterns=[tanh_approximation, tanh_factored, tanh_placeholder],
    conditions=[is_not_float64],
    form_patterns=[one_node],
)
def gelu_tanh(g: Graph, x: Tensor) -> Tensor:
    """Fuse the tanh approximation of GELU into one node: FastGelu, or Gelu with approximate="tanh".

    What: x · ½ · (1 + tanh(√(2/π) · (x + 0.044715 · x³))), as in GPT-2 and Gemma.
    Numerics: rounding only.  The rule never matches the exact GELU, which differs by up to 5e-4.
    """
    require(x.shape != (), "FastGelu needs a tensor with at least one axis")
    return g.ms_fast_gelu(x)


@gelu_tanh.on("onnx", opset=20)
def _(g: Graph, x: Tensor) -> Tensor:
    """ai.onnx::Gelu with approximate="tanh"."""
    return g.gelu(x, approximate="tanh")


def sigmoid_approximation(g: Graph, x: Tensor) -> Tensor:
    """x · σ(1.702 · x)."""
    return g.mul(x, g.sigmoid(g.mul(x, 1.702)))


@rule(patterns=[sigmoid_approximation], conditions=[is_not_float64])
def quick_gelu(g: Graph, x: Tensor) -> Tensor:
    """Fuse x · σ(1.702 · x), the GELU of CLIP, into one node: QuickGelu, or Swish with alpha=1.702.

    Numerics: rounding only.
    """
    return g.ms_quick_gelu(x, alpha=1.702)


@quick_gelu.on("onnx", opset=24)
def _(g: Graph, x: Tensor) -> Tensor:
    return g.swish(x, alpha=1.702)
