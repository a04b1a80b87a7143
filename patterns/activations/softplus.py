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
    """x above 20, Softplus elsewhere: the definition in torch, which its dynamo exporter writes."""
    return g.where(g.capture("guard", g.greater(x, 20.0)), x, g.softplus(x))


def thresholded_beta(g: Graph, x: Tensor, beta: float) -> Tensor:
    """x where β · x is above 20, softplus(β · x)/β elsewhere."""
    steep = g.mul(x, beta)
    return g.where(g.capture("guard", g.greater(steep, 20.0)), x, g.div(g.softplus(steep), beta))


def needs_no_guard(x: Tensor, guard: Tensor | None = None) -> None:
    """Refuse inputs for which the guard matters.

    In half precision, Softplus of ONNX Runtime is log(1 + exp(x)) in float32.  In float64, the step at 20 is visible.
    """
    require(
        x.dtype != "float64",
        "in float64 the threshold of 20 changes the result, and no kernel supports Softplus for float64",
    )
    require(
        guard is None or x.dtype == "float32", "in half precision Softplus overflows from 89 on, unless it is guarded"
    )


def is_steep(beta: float) -> None:
    """Require a positive β: a negative β reverses the function, and β = 0 removes x from it."""
    require(0 < beta < inf, "beta must be positive")


@rule(patterns=[stable, logarithm, thresholded], conditions=[needs_no_guard, is_relu_exact_clip], target="onnx")
def softplus(g: Graph, x: Tensor) -> Tensor:
    """Fuse log(1 + exp(x)) into one Softplus node.

    What: log(1 + exp(x)).  In float32 also its stable form max(x, 0) + log(1 + exp(−|x|)), and the form of torch with x
    above 20.
    Numerics: rounding only while exp(x) is finite.  For a larger x (above 88 in float32, above 11 in float16), log(1 +
    exp(x)) overflows to infinity.  The fused node does not overflow, or only for a larger x.
    """
    return g.softplus(x)


@softplus.on("decomposed")
def _(g: Graph, x: Tensor) -> Tensor:
    require(x.dtype != "bfloat16", "in bfloat16, 1 + exp(x) rounds to 1 for all x below -6")
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
    """Remove the threshold from softplus(β · x)/β as torch writes it.  In float32 Softplus does not overflow.

    What: x if β · x is above 20, otherwise softplus(β · x)/β.  This is nn.Softplus(β) from the dynamo exporter of
    torch.
    Numerics: rounding only.
    """
    return without_threshold(g, x, beta)
