"""What is scattered with a reduction, as TensorRT's plugin."""

from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require, rule
from ._scatter import ScatterReduction, axis_size, by_elements, nonnegative_indices

REDUCTIONS = ("add", "mul", "max", "min")
TAKES = ("float32", "float16", "bfloat16", "int32", "int64")
VERSION: dict[str, Any] = {"plugin_version": "2", "plugin_namespace": ""}  # 2: of TensorRT 10.3 and newer


def from_the_front(g: Graph, m: ScatterReduction, axis: int) -> Tensor:
    """Indices that count from the front, in int64."""
    if m.indices.is_constant and m.indices.values.min(initial=0) >= 0:
        return g.cast(m.indices, to="int64")
    size = axis_size(g, m.x, axis)
    return nonnegative_indices(g, m.indices, np.array(size) if isinstance(size, int) else size)


@rule(patterns=[by_elements], target="tensorrt", opset=16, dtypes=TAKES)
def scatter_plugin(g: Graph, m: ScatterReduction) -> Any:
    """Write a ScatterElements with a reduction as TensorRT's plugin of that name.

    What: a ScatterElements that adds, multiplies, or takes the largest or smallest, whose indices go over all other
    axes of what is there.  The plugin takes no indices that count from the end, so these are counted from the front.
    Numerics: rounding only; in what order it adds is left open.
    TensorRT: use it where scatter_elements, which the group writes, compares too many indices with too many places.
    Version 2 of the plugin came with 10.3, whose parser calls it by itself; TensorRT-RTX has it not.  Named before the
    group `tensorrt`.
    """
    require(m.reduction in REDUCTIONS, "it has no reduction, and TensorRT scatters so itself")
    axis = m.whole_axis()
    settings: dict[str, Any] = {"axis": axis, "reduction": m.reduction}
    indices = from_the_front(g, m, axis)
    return g.op("trt.plugins::ScatterElements", m.x, indices, m.updates, **settings, **VERSION)
