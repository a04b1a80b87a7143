"""Recurrent layers with quantised weights from the dynamic quantisation of ONNX Runtime."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, require, rule

OUTPUTS = ("y", "hidden", "cell")


class Recurrent(Captures):
    """The inputs of one node, the scale and zero point of two weights, and the outputs that are read."""

    x: Tensor
    w: Constant
    r: Constant
    b: Tensor | None = None
    lengths: Tensor | None = None
    first_hidden: Tensor | None = None
    first_cell: Tensor | None = None
    peepholes: Tensor | None = None
    w_scale: Constant
    w_zero: Constant
    r_scale: Constant
    r_zero: Constant
    y: Tensor | Any = None
    hidden: Tensor | Any = None
    cell: Tensor | Any = None
    attributes: dict[str, Any]


def node(*read: str) -> Callable[..., Any]:
    """Return the pattern of a DynamicQuantizeLSTM whose listed outputs are read."""

    def lstm(g: Graph, m: Recurrent) -> Any:
        weights = m.w_scale, m.w_zero, m.r_scale, m.r_zero
        given = m.x, m.w, m.r, m.b, m.lengths, m.first_hidden, m.first_cell, m.peepholes, *weights
        made = dict(zip(OUTPUTS, g.ms_dynamic_quantize_lstm(*given, outputs=3, **m.attributes), strict=True))
        for name in read:
            setattr(m, name, made[name])
        return [getattr(m, name) for name in read]

    lstm.__doc__ = f"DynamicQuantizeLSTM whose outputs {', '.join(read)} are read."
    lstm.__name__ = f"lstm_{'_'.join(read)}"
    return lstm


NODES = [node(*read) for count in (1, 2, 3) for read in combinations(OUTPUTS, count)]


def floats(weight: Constant, scale: Constant, zero: Constant) -> np.ndarray[Any, Any]:
    """Return (weight − zero) · scale of [directions, inputs, gates] in LSTM's layout: [directions, gates, inputs]."""
    require(weight.rank == 3 and scale.shape == zero.shape, "a weight must have the axes directions, inputs, gates")
    apart = scale.shape in (weight.shape[:1], (weight.shape[0], weight.shape[2]))
    require(apart, "a weight must have one scale for each direction, or one for each of its columns")
    scales, zeros = (item.values.astype(np.float32).reshape(weight.shape[0], 1, -1) for item in (scale, zero))
    found = (weight.values.astype(np.float32) - zeros) * scales
    return np.ascontiguousarray(found.transpose(0, 2, 1))


ROUGH = "next to a much larger number, eight bits for all numbers leave few digits for the others"
DIFFERS = {
    **dict.fromkeys(("wide", "large", "extreme", "offset"), ROUGH),
    "non_finite": "NaN and infinity have no eight-bit value",
}


@rule(patterns=NODES, target="any", lacking=True, approximate=0.2, differs=DIFFERS)
def dynamic_quantize_lstm(g: Graph, m: Recurrent) -> list[Tensor]:
    """Write a DynamicQuantizeLSTM as LSTM with dequantised weights.

    What: the LSTM of models written by onnxruntime.quantization.quantize_dynamic, if the target does not support it.
    Numerics: the weights are the same numbers.  Inputs and states are no longer rounded to eight bits at each step.
    Therefore the result is closer to the model before quantisation, and differs from this one by that rounding.
    """
    inputs, states = floats(m.w, m.w_scale, m.w_zero), floats(m.r, m.r_scale, m.r_zero)
    given: Any = m.x, inputs, states, m.b, m.lengths, m.first_hidden, m.first_cell, m.peepholes
    made: Any = g.lstm(*given, outputs=3, **m.attributes)
    read = m.y, m.hidden, m.cell
    return [one for one, is_read in zip(made, read, strict=True) if is_read is not None]
