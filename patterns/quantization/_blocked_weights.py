"""Weights of a few bits in blocks, each with a separate scale, as floats."""

from typing import Any

import ml_dtypes
import numpy as np

from surgeon import Graph, Tensor, require

Array = np.ndarray[Any, np.dtype[Any]]
BLOCKS_SINCE = 21  # the opset from which DequantizeLinear supports blocks (ONNX changelog)


def repeated(values: Array, size: int, block: int, axis: int) -> Array:
    """Repeat the value of each block for its elements.  The last block may be incomplete."""
    return np.repeat(values, block, axis=axis).take(np.arange(size), axis=axis)


def floats(g: Graph, numbers: Array, scales: Array, block: int, axis: int) -> Tensor:
    """Return numbers · scales, block by block along an axis, in the dtype of the scales.

    From opset 21 on this is one DequantizeLinear, of four bits if the numbers fit.  Before, it is decomposed into ops
    that all runtimes support.
    """
    least, most = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    require(least >= -128 and most < 128, "its weights minus the zero point do not fit int8")
    if g.opset >= BLOCKS_SINCE and not numbers.shape[axis] % block:
        few = numbers.astype(ml_dtypes.int4 if least >= -8 and most < 8 else np.int8)
        return g.dequantize_linear(few, np.ascontiguousarray(scales), axis=axis, block_size=block)
    return in_parts(g, numbers, scales, block=block, axis=axis)


def in_parts(g: Graph, numbers: Array, scales: Array, block: int, axis: int) -> Tensor:
    """Return the same as a product of the numbers and the scale of their block."""
    is_narrow = numbers.min(initial=0) >= -128 and numbers.max(initial=0) < 128
    whole: Any = numbers.astype(scales.dtype)
    if is_narrow and scales.dtype == np.float32:
        whole = g.dequantize_linear(numbers.astype(np.int8), np.array(1, np.float32), np.array(0, np.int8))
    return g.mul(whole, g.gather(np.ascontiguousarray(scales), np.arange(numbers.shape[axis]) // block, axis=axis))
