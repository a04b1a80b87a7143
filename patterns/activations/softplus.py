"""Softplus, a smooth ReLU (Dugas et al., NIPS 2000)."""

from math import inf

from surgeon import Graph, Tensor, require, rule
from .._common.floats import is_relu_exact_clip


def stable(g: Graph, x: Tensor) -> Tensor:
    """max(x, 0) + log(1 + exp(−|x|)), which does not overflow."""
    return g.add(g.capture("guard", g.relu_of(x)), g.log(g.add(1.0, g.exp(g.neg(g.abs(x))))))


def logarithm(g: Graph, x: Tensor) -> Tensor:
    """log(1 + exp(x))."""
    return g.log(g.add(1.0, g.exp(x)))


def thresholded(g: Graph, x: Tensor) -> Tensor:
    """x above 20, Softplus elsewhere, as torch defines it and its dynamo exporter writes it."""
    return g.where(g.capture("guard", g.greater(x, 20.0)), x, g.softplus(x))


def thresholded_beta(g: Graph, x: Tensor, beta: float) -> Tensor:
    """x where β · x is above 20, softplus(β · x)/β elsewhere."""
    steep = g.mul(x, beta)
    return g.where(g.capture("guard", g.greater(steep, 20.0)), x, g.div(g.softplus(steep), beta))


def needs_no_guard(x: Tensor, guard: Tensor | None = None) -> None:
    """ONNX Runtime's Softplus of half precision is log(1 + exp(x)) in float32; at 20, a double still shows the step."""
    require(x.dtype != "float64", "the threshold of 20 shows in a double, and no kernel takes Softplus of one")
    require(guard is None or x.dtype == "float32", "in half precision Softplus overflows from 89 on, unless guarded")


def is_steep(beta: float) -> None:
    """A negative β turns the function round, and one of 0 makes nothing of it."""
    require(0 < beta < inf, "beta must be positive")


@rule(patterns=[stable, logarithm, thresholded], conditions=[needs_no_guard, is_relu_exact_clip], target="onnx")
def softplus(g: Graph, x: Tensor) -> Tensor:
    """Fuse log(1 + exp(x)) into one Softplus node.

    What: log(1 + exp(x)); in float32 also its stable form max(x, 0) + log(1 + exp(−|x|)), and torch's, x above 20.
    Numerics: rounding only, while exp(x) is finite.  Beyond (x > 88 in float32, x > 11 in float16) log(1 + exp(x))
    overflows to infinity, and the one node does not, or not so soon.
    """
    return g.softplus(x)


@softplus.on("decomposed")
def _(g: Graph, x: Tensor) -> Tensor:
    require(x.dtype != "bfloat16", "in bfloat16, 1 + exp(x) is 1 from -6 on down")
    return stable(g, x)


def without_threshold(g: Graph, x: Tensor, beta: float) -> Tensor:
    """softplus(β · x)/β."""
    return g.div(g.softplus(g.mul(x, beta)), beta)


@rule(
    patterns=[thresholded_beta],
    conditions=[needs_no_guard, is_steep],
    target="onnx",
    form_patterns=[without_threshold],
)
def softplus_beta(g: Graph, x: Tensor, beta: float) -> Tensor:
    """Leave the threshold out of torch's softplus(β · x)/β, whose Softplus does not overflow in float32.

    What: x where β · x is above 20 and softplus(β · x)/β elsewhere, as torch's dynamo exporter writes nn.Softplus(β).
    Numerics: rounding only.
    """
    return without_threshold(g, x, beta)
