"""Celu of half precision, as TorchScript exports it."""

from surgeon import Graph, Tensor, require, rule

HALVES = ("float16", "bfloat16")


def node(g: Graph, x: Tensor, alpha: float = 1.0) -> Tensor:
    """Celu."""
    return g.celu(x, alpha=alpha)


@rule(patterns=[node], target="any", opset=12)
def half_celu(g: Graph, x: Tensor, alpha: float = 1.0) -> Tensor:
    """Write a Celu of half precision in float32, between Casts.

    What: ONNX's Celu takes float32 alone, and torch's TorchScript exporter writes one of float16 all the same, which
    neither ONNX Runtime nor TensorRT takes; what is meant is the same.
    Numerics: none.
    """
    require(str(x.dtype) in HALVES, "it is of float32, as ONNX has it")
    return g.cast(g.celu(g.cast(x, to="float32"), alpha=alpha), to=x.dtype)
