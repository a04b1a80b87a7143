"""Any and all of booleans, for TensorRT, which supports the maximum and minimum only of numbers."""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule


class Truths(Captures):
    """Booleans, and the axes over which they are reduced."""

    x: Tensor
    axes: Tensor | None = None
    attributes: dict[str, Any]


def largest(g: Graph, m: Truths) -> Any:
    """ReduceMax."""
    return g.reduce_max(m.x, m.axes, **m.attributes)


def smallest(g: Graph, m: Truths) -> Any:
    """ReduceMin."""
    return g.reduce_min(m.x, m.axes, **m.attributes)


@rule(patterns=[largest, smallest], target="tensorrt", opset=20)
def reduce_bool(g: Graph, m: Truths) -> Tensor:
    """Compute any or all of booleans as the maximum or minimum of int32.

    What: ReduceMax and ReduceMin of bool, between Casts.
    Numerics: none.
    """
    require(m.x.dtype == np.bool_, "its input must be boolean")
    inputs = [g.cast(m.x, to="int32"), *([] if m.axes is None else [m.axes])]
    return g.cast(g.op(m.match.root.op, *inputs, **m.attributes), to="bool")
