"""Rules for ops that pick or count elements: slices, gathers, searches and sorts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from surgeon.shapes.algebra.size_expressions import Size, as_function, at_least, floor_div, product, size_max, size_min
from surgeon.shapes.op_rules.axis_labels import (
    AxisLabels,
    LabelRule,
    axis_of,
    combining,
    rank,
    resized,
    same_axes,
    shaped,
    unrelated,
)
from surgeon.shapes.tensor_types import (
    INT64,
    NodeView,
    PartialShape,
    PartialType,
    Rule,
    Shape,
    TensorType,
    normalize_axis,
    require,
)

FAR = 2**31 - 1  # an end from here on means "to the end" (ONNX, Slice)


def slice_parameters(site: NodeView) -> tuple[list[Any], list[Any], list[int], list[int]] | None:
    """(starts, ends, axes, steps) of a Slice, unknown starts and ends as None; None if axes are unknown."""
    if site.opset < 10:
        starts, ends = list(site.attribute("starts") or ()), list(site.attribute("ends") or ())
        listed = list(site.attribute("axes") or range(len(starts)))
        require(len(starts) == len(ends) == len(listed))
        return starts, ends, listed, [1] * len(starts)
    axes = site.numbers(3) if site.has(3) else None
    steps = site.numbers(4) if site.has(4) else None
    if (site.has(3) and axes is None) or (site.has(4) and steps is None):
        return None
    bounds = [site.value(1), site.value(2)]
    lengths = [len(found.reshape(-1)) for found in bounds if found is not None]
    count = len(axes) if axes is not None else (lengths or [-1])[0]
    if count < 0:
        return None
    starts, ends = ([None] * count if found is None else found.reshape(-1).tolist() for found in bounds)
    axes, steps = list(range(count)) if axes is None else axes, [1] * count if steps is None else steps
    require(len(starts) == len(ends) == len(axes) == len(steps))
    return starts, ends, axes, steps


def _from_front(bound: Size | None, size: Size) -> Size | None:
    """A start or end of a Slice with a positive step as an index of at least 0; None if its sign is unknown.

    The negative of a size counts from the end.  If that size is 0, it does not, but then the slice is empty.
    """
    if isinstance(bound, int) and abs(bound) >= FAR:
        return size if bound > 0 else 0
    if bound is None or at_least(bound, 0):
        return bound
    return size_max(bound + size, 0) if at_least(0, bound) else None


def slice_range(size: int, start: int, end: int, step: int) -> range:
    """The indices of an axis that a Slice selects; a backward Slice begins at the first index or later."""
    first, last = (bound + size if bound < 0 else bound for bound in (start, end))
    least, most = (-1, size - 1) if step < 0 else (0, size)
    return range(min(max(first, 0), most), min(max(last, least), most), step)


def slice_size(size: Size, start: Size | None, end: Size | None, step: int) -> Size | None:
    """The number of elements of an axis that a Slice selects (ONNX, Slice)."""
    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
        require(step != 0)
        return len(slice_range(size, start, end, step))
    if step < 0:
        if isinstance(start, int) and isinstance(end, int) and (start == -1 or start >= FAR) and end <= -FAR:
            return floor_div(size - 1, -step) + 1
        return None
    first, last = _from_front(start, size), _from_front(end, size)
    if first is None or last is None or step == 0:
        return None
    lasts, firsts = _items("min", size_min(last, size)), _items("max", first)
    length = size_max(size_min(*(a - b for a in lasts for b in firsts)), 0)
    return floor_div(length + step - 1, step)


def _items(kind: str, size: Size) -> tuple[Size, ...]:
    """The arguments of a call of this kind; any other size by itself."""
    call = as_function(size)
    return call.args if call is not None and call.kind == kind else (size,)


def _slice(site: NodeView) -> Sequence[PartialType]:
    (dtype, shape), found = site.ranked_type(0), slice_parameters(site)
    if found is None:
        return [PartialType(dtype, [None] * len(shape))]
    sizes: list[Size | None] = list(shape)
    for start, end, axis, step in zip(*found, strict=True):
        axis = normalize_axis(axis, len(shape))
        sizes[axis] = slice_size(shape[axis], start, end, step)
    return [PartialType(dtype, sizes)]


def _gather_elements(site: NodeView) -> Sequence[TensorType]:
    return [TensorType(site.dtype(0), site.shape(1))]


def _top_k(site: NodeView) -> Sequence[PartialType]:
    dtype, shape = site.ranked_type(0)
    axis = normalize_axis(site.attribute("axis", -1), len(shape))
    listed: Sequence[Size] | None = site.sizes(1) if site.has(1) else [site.attribute("k")]
    sizes = [*shape[:axis], listed[0] if listed else None, *shape[axis + 1 :]]
    return [PartialType(dtype, sizes), PartialType(INT64, sizes)]


def _non_zero(site: NodeView) -> Sequence[PartialType]:
    """All elements are nonzero in a tensor filled with one number; TorchScript writes the indices 0, 1, ... of an axis
    so.
    """
    shape, filled = site.shape(0), site.producer(0)
    count: Size | None = None
    if shape and filled is not None and filled.node.op == "ConstantOfShape":
        count = product(shape) if fills(filled) else 0
    return [PartialType(INT64, [None if shape is None else max(len(shape), 1), count])]


def fills(site: NodeView) -> Any:
    """The number that ConstantOfShape fills a tensor with."""
    filling = site.attribute("value")
    return np.float32(0) if filling is None else numpy_helper.to_array(filling.t).reshape(-1)[0]


def _one_hot(site: NodeView) -> Sequence[PartialType]:
    dtype, (_, shape) = site.dtype(2), site.ranked_type(0)
    depth: Sequence[Size] | None = site.sizes(1) or [int(number) for number in site.floats(1) or ()]
    axis = normalize_axis(site.attribute("axis", -1), len(shape) + 1)
    return [PartialType(dtype, [*shape[:axis], depth[0] if depth else None, *shape[axis:]])]


def _unique(site: NodeView) -> Sequence[PartialType]:
    dtype, shape = site.facts(0)
    axis = site.attribute("axis")
    found: PartialShape | None = [None]
    if axis is not None:
        found = None if shape is None else _with_open(shape, normalize_axis(axis, len(shape)))
    return [PartialType(dtype, found), *[PartialType(INT64, [None])] * 3]


def _compress(site: NodeView) -> Sequence[PartialType]:
    dtype, shape = site.facts(0)
    axis = site.attribute("axis")
    if axis is None:
        return [PartialType(dtype, [None])]
    return [PartialType(dtype, None if shape is None else _with_open(shape, normalize_axis(axis, len(shape))))]


def _with_open(shape: Shape, axis: int) -> PartialShape:
    return [*shape[:axis], None, *shape[axis + 1 :]]


def _non_max_suppression(site: NodeView) -> Sequence[PartialType]:
    return [PartialType(INT64, [None, 3])]


def _gathered_axes(view: NodeView) -> AxisLabels:
    axis, axes, picked = axis_of(view, 0), range(rank(view, 0)), [("index", at) for at in range(rank(view, 1))]
    return AxisLabels({0: axes, 1: picked}, [*axes[:axis], *picked, *axes[axis + 1 :]], mixed=[axis])


def _element_axes(view: NodeView) -> AxisLabels:
    """Indices, and updates, for each element of the output; other axes may be shorter than those of the table."""
    axis, axes = axis_of(view, 0), range(rank(view, 0))
    picked = [("index", at) for at in axes]
    others = {place: picked for place in range(1, len(view.inputs)) if view.has(place)}
    return AxisLabels({0: axes, **others}, axes if len(others) > 1 else picked, mixed=[axis])


def _tuple_axes(view: NodeView) -> AxisLabels:
    """The last axis of the indices runs over axes of the table; updates have the other axes of both."""
    indices, axes, first = view.shape(1), range(rank(view, 0)), view.attribute("batch_dims", 0)
    width = indices[-1] if indices else None
    require(isinstance(width, int) and first + width <= len(axes))
    rest = axes[first + int(str(width)) :]
    picked = [at if at < first else ("index", at) for at in range(rank(view, 1) - 1)]
    labels: dict[int, Sequence[object]] = {0: axes, 1: [*picked, None]}
    if view.has(2):
        labels[2] = [*picked, *rest]
    return AxisLabels(labels, axes if view.has(2) else [*picked, *rest], mixed=axes[first : len(axes) - len(rest)])


def _last_two(view: NodeView) -> AxisLabels:
    labels = same_axes(view)
    return labels._replace(mixed=labels.inputs[0][-2:])


def _cumulated_axes(view: NodeView) -> AxisLabels:
    labels, axes = same_axes(view), view.axes(1)
    require(axes is not None)
    return labels._replace(mixed=[normalize_axis(axis, rank(view, 0)) for axis in axes or ()])


LABELS: dict[str, LabelRule] = {
    **dict.fromkeys(("GatherElements", "ScatterElements", "Scatter"), _element_axes),
    **dict.fromkeys(("GatherND", "ScatterND", "com.microsoft::GatherND"), _tuple_axes),
    **dict.fromkeys(("Trilu", "com.microsoft::Trilu", "com.microsoft::Inverse"), _last_two),
    **dict.fromkeys(("CumSum", "CumProd"), _cumulated_axes),
    "Gather": _gathered_axes,
    "OneHot": unrelated,
    "Slice": resized,
    "TopK": combining(),
}


def _gather_blocks(site: NodeView) -> list[TensorType]:
    """A table of integers, of which several are in one byte; the last axis is that of the blocks."""
    shape, bits = _gathered_axes(site).output_shape(site), site.attribute("bits", 4)
    if shape and site.dtype(0) == TensorProto.UINT8 and isinstance(bits, int):
        shape = (*shape[:-1], shape[-1] * (8 // bits))
    return [TensorType(site.dtype(2), shape)]


RULES: dict[str, Rule] = {
    "Slice": _slice,
    "Gather": shaped(_gathered_axes),
    "com.microsoft::GatherBlockQuantized": _gather_blocks,
    "GatherElements": _gather_elements,
    "GatherND": shaped(_tuple_axes),
    "com.microsoft::GatherND": shaped(_tuple_axes),
    "TopK": _top_k,
    "NonZero": _non_zero,
    "OneHot": _one_hot,
    "Unique": _unique,
    "Compress": _compress,
    "NonMaxSuppression": _non_max_suppression,
}
