"""What is scattered with a reduction, as TensorRT's plugin."""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule

REDUCTIONS = ("add", "mul", "max", "min")
TAKES = ("float32", "float16", "bfloat16", "int32", "int64")
VERSION: dict[str, Any] = {"plugin_version": "2", "plugin_namespace": ""}  # 2: of TensorRT 10.3 and newer


class Scattered(Captures):
    """What is there, where something is put, and how."""

    x: Tensor
    indices: Tensor
    updates: Tensor
    axis: int = 0
    reduction: str


def by_elements(g: Graph, m: Scattered) -> Tensor:
    """ScatterElements."""
    return g.scatter_elements(m.x, m.indices, m.updates, axis=m.axis, reduction=m.reduction)


def from_the_front(g: Graph, m: Scattered, axis: int) -> Tensor:
    """Indices that count from the front, in int64."""
    wide = g.cast(m.indices, to="int64")
    if m.indices.is_constant and m.indices.values.min(initial=0) >= 0:
        return wide
    size = m.x.shape[axis]
    count: Any = np.array(size) if isinstance(size, int) else g.gather(g.shape(m.x), np.array(axis))
    return g.where(g.less(wide, np.array(0)), g.add(wide, count), wide)


@rule(patterns=[by_elements], target="tensorrt", opset=16, dtypes=TAKES)
def scatter_plugin(g: Graph, m: Scattered) -> Any:
    """Write a ScatterElements with a reduction as TensorRT's plugin of that name.

    What: a ScatterElements that adds, multiplies, or takes the largest or smallest, whose indices go over all other
    axes of what is there.  The plugin takes no indices that count from the end, so these are counted from the front.
    Numerics: rounding only; in what order it adds is left open.
    TensorRT: use it where scatter_elements, which the group writes, compares too many indices with too many places.
    Version 2 of the plugin came with 10.3, whose parser calls it by itself; TensorRT-RTX has it not.  Named before the
    group `tensorrt`.
    """
    require(m.reduction in REDUCTIONS, "it has no reduction, and TensorRT scatters so itself")
    known = m.x.rank is not None and m.indices.rank is not None
    require(known, "a rank is unknown")
    axis = m.axis % m.x.rank
    others = [(m.x.shape[at], m.indices.shape[at]) for at in range(m.x.rank) if at != axis]
    require(all(one == other for one, other in others), "the indices do not go over all other axes")
    settings: dict[str, Any] = {"axis": axis, "reduction": m.reduction}
    indices = from_the_front(g, m, axis)
    return g.op("trt.plugins::ScatterElements", m.x, indices, m.updates, **settings, **VERSION)
