"""What TorchScript leaves of half precision beside float32: scales of layer norms, and those of attentions."""

from typing import Any

import numpy as np

from surgeon import Constant, Graph, Tensor, require, rule

HALVES = ("float16", "bfloat16")


def mixed(g: Graph, x: Tensor, scale: Constant, bias: Constant | None = None, **settings: Any) -> Tensor:
    """LayerNormalization."""
    made: Tensor = g.layer_normalization(x, scale, bias, **settings)
    return made


@rule(patterns=[mixed], target="any", opset=17)
def mixed_dtype_layer_norm(
    g: Graph, x: Tensor, scale: Constant, bias: Constant | None = None, **settings: Any
) -> Tensor:
    """Write the scale and the bias of a LayerNormalization in float32, where its input is of float32 and they are not.

    What: torch's TorchScript exporter writes a model of half precision so at opset 17 and later.  ONNX wants one dtype,
    and neither ONNX Runtime nor TensorRT takes two; what is meant is the same.
    Numerics: none.
    """
    parts = [one for one in (scale, bias) if one is not None]
    require(x.dtype == np.float32, "its input is not float32")
    require(any(str(one.values.dtype) in HALVES for one in parts), "its scale and bias are of its input's dtype")
    wide: Any = [None if one is None else g.literal(one.values.astype(np.float32)) for one in (scale, bias)]
    made: Tensor = g.layer_normalization(x, *wide, **settings)
    return made


def scaled(g: Graph, x: Tensor, scale: Tensor) -> Tensor:
    """x · √scale."""
    return g.mul(x, g.sqrt(scale))


@rule(patterns=[scaled], target="any")
def mixed_dtype_scale(g: Graph, x: Tensor, scale: Tensor) -> Tensor:
    """Take the root of a scale in float32, where what it multiplies is of float32 and it is not.

    What: so torch's TorchScript exporter writes queries and keys of half precision, which norms or masks made float32.
    Numerics: none.
    """
    require(x.dtype == np.float32, "what is scaled is not float32")
    require(str(scale.dtype) in HALVES, "the scale is not of half precision")
    return g.mul(x, g.sqrt(g.cast(scale, to=np.float32)))
