"""Nodes with both half precision and float32 that TorchScript writes: scales of layer norms and of attention."""

from typing import Any

import numpy as np

from surgeon import Constant, Graph, Tensor, require, rule

HALVES = ("float16", "bfloat16")


def mixed(g: Graph, x: Tensor, scale: Constant, bias: Constant | None = None, **settings: Any) -> Tensor:
    """LayerNormalization."""
    made: Tensor = g.layer_normalization(x, scale, bias, **settings)
    return made


@rule(patterns=[mixed], target="any", opset=17, mixed=True)
def mixed_dtype_layer_norm(
    g: Graph, x: Tensor, scale: Constant, bias: Constant | None = None, **settings: Any
) -> Tensor:
    """Convert the scale and the bias of a LayerNormalization to float32, if its input is float32 and they are not.

    What: the TorchScript exporter of torch writes models of half precision like this at opset 17 and later.  ONNX
    requires one dtype, and neither ONNX Runtime nor TensorRT supports two.  The meaning is the same.
    Numerics: none.
    """
    parts = [one for one in (scale, bias) if one is not None]
    require(x.dtype == np.float32, "its input is not float32")
    require(
        any(str(one.values.dtype) in HALVES for one in parts), "its scale and bias already have the dtype of its input"
    )
    wide: Any = [None if one is None else g.literal(one.values.astype(np.float32)) for one in (scale, bias)]
    made: Tensor = g.layer_normalization(x, *wide, **settings)
    return made


def scaled(g: Graph, x: Tensor, scale: Tensor) -> Tensor:
    """x · √scale."""
    return g.mul(x, g.sqrt(scale))


def scaled_by_constant(g: Graph, x: Tensor, root: Constant) -> Tensor:
    """The same with a constant root."""
    return g.mul(x, root)


@rule(patterns=[scaled, scaled_by_constant], target="any", mixed=True)
def mixed_dtype_scale(g: Graph, x: Tensor, scale: Tensor | None = None, root: Constant | None = None) -> Tensor:
    """Compute the root of a scale in float32, if its factor is float32 and the scale is not.

    What: the TorchScript exporter of torch writes this for queries and keys of half precision that a norm or mask
    converted to float32.  The root may be a constant.
    Numerics: none.
    """
    require(x.dtype == np.float32, "the scaled tensor must be float32")
    half: Any = scale if root is None else root
    require(str(half.dtype) in HALVES, "the scale must be half precision")
    wide = g.cast(half, to=np.float32)
    return g.mul(x, g.sqrt(wide) if root is None else wide)
