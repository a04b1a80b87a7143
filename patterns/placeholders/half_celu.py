"""Celu in half precision, as TorchScript exports it."""

from surgeon import Graph, Tensor, require, rule

HALVES = ("float16", "bfloat16")


def node(g: Graph, x: Tensor, alpha: float = 1.0) -> Tensor:
    """Celu."""
    return g.celu(x, alpha=alpha)


@rule(patterns=[node], target="any", opset=12)
def half_celu(g: Graph, x: Tensor, alpha: float = 1.0) -> Tensor:
    """Compute a Celu of half precision in float32, between Casts.

    What: Celu of ONNX supports only float32.  The TorchScript exporter of torch writes it for float16 anyway, which
    neither ONNX Runtime nor TensorRT supports.  The meaning is the same.
    Numerics: none.
    """
    require(str(x.dtype) in HALVES, "x is float32, which Celu supports")
    return g.cast(g.celu(g.cast(x, to="float32"), alpha=alpha), to=x.dtype)
