"""Scatter ops with a reduction as a TensorRT plugin."""

from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require, rule
from ._scatter import ScatterReduction, axis_size, by_elements, nonnegative_indices

REDUCTIONS = ("add", "mul", "max", "min")
TAKES = ("float32", "float16", "bfloat16", "int32", "int64")
VERSION: dict[str, Any] = {"plugin_version": "2", "plugin_namespace": ""}  # version 2 is in TensorRT 10.3 and newer


def from_the_front(g: Graph, m: ScatterReduction, axis: int) -> Tensor:
    """Return int64 indices that count from the front."""
    if m.indices.is_constant and m.indices.values.min(initial=0) >= 0:
        return g.cast(m.indices, to="int64")
    size = axis_size(g, m.x, axis)
    return nonnegative_indices(g, m.indices, np.array(size) if isinstance(size, int) else size)


@rule(patterns=[by_elements], target="tensorrt", opset=16, dtypes=TAKES)
def scatter_plugin(g: Graph, m: ScatterReduction) -> Any:
    """Write a ScatterElements with a reduction as the TensorRT plugin of that name.

    What: a ScatterElements with the reduction add, mul, max or min, whose indices cover all other axes of the data.
    The plugin does not support negative indices, so the rule makes them count from the front.
    Numerics: rounding only.  The order of the sum is not defined.
    TensorRT: use it if scatter_elements, which is in the group, compares too many indices with too many positions.
    Version 2 of the plugin needs TensorRT 10.3, whose parser uses the plugin by itself.  TensorRT-RTX does not have it.
    Name this rule before the group `tensorrt`.
    """
    require(m.reduction in REDUCTIONS, "it has no reduction, so TensorRT supports it")
    axis = m.whole_axis()
    settings: dict[str, Any] = {"axis": axis, "reduction": m.reduction}
    indices = from_the_front(g, m, axis)
    return g.op("trt.plugins::ScatterElements", m.x, indices, m.updates, **settings, **VERSION)
