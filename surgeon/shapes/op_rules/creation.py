"""Rules for ops that create tensors from shapes and numbers: constants, ranges, shapes, random numbers, resizes."""

from collections.abc import Sequence
from math import ceil, inf, isfinite, lcm
from typing import Any

import numpy as np
from onnx import AttributeProto

from surgeon.shapes.algebra.ratios import KINDS, MAX_DIVISOR, scaled
from surgeon.shapes.algebra.size_expressions import Size, floor_div, size_max
from surgeon.shapes.op_rules.axis_labels import LabelRule, resized, unrelated
from surgeon.shapes.tensor_types import (
    BOOL,
    FLOAT,
    FLOATS,
    INT64,
    NodeView,
    PartialType,
    Rule,
    TensorType,
    length_of,
    normalize_axis,
    require,
)

STRING = 8  # TensorProto.STRING


def constant(site: NodeView) -> AttributeProto | None:
    """The attribute of a Constant, references to a function's attributes resolved."""
    names = [item.name for item in site.node.proto.attribute]
    return None if len(names) != 1 else site.resolved(names[0])


def _constant(site: NodeView) -> Sequence[TensorType]:
    item = constant(site)
    if item is None:
        return [TensorType(None, None)]
    if item.name == "value" or item.type == AttributeProto.TENSOR:
        return [TensorType(item.t.data_type, tuple(item.t.dims))]
    if item.name == "sparse_value" or item.type == AttributeProto.SPARSE_TENSOR:
        return [TensorType(item.sparse_tensor.values.data_type, tuple(item.sparse_tensor.dims))]
    lists = {AttributeProto.INTS: item.ints, AttributeProto.FLOATS: item.floats, AttributeProto.STRINGS: item.strings}
    numbers: Any = lists.get(item.type)
    kinds = {AttributeProto.INT: INT64, AttributeProto.INTS: INT64, AttributeProto.FLOAT: FLOAT}
    dtype = {**kinds, AttributeProto.FLOATS: FLOAT}.get(item.type, STRING)
    return [TensorType(dtype, () if numbers is None else (len(numbers),))]


def shape_range(site: NodeView, rank: int) -> range:
    """The axes that a Shape lists (ONNX, Shape-15: start and end are clamped)."""
    return range(*slice(site.attribute("start", 0), site.attribute("end", rank)).indices(rank))


def _shape(site: NodeView) -> Sequence[PartialType]:
    shape = site.shape(0)
    return [PartialType(INT64, [None if shape is None else len(shape_range(site, len(shape)))])]


def _size(site: NodeView) -> Sequence[TensorType]:
    return [TensorType(INT64, ())]


def _filled(site: NodeView) -> Sequence[PartialType]:
    filling = site.attribute("value")
    dtype = FLOAT if filling is None else filling.t.data_type
    target = site.value(0)
    if target is not None:
        return [PartialType(dtype, target.reshape(-1).tolist())]
    rank = length_of(site.shape(0))
    return [PartialType(dtype, None if rank is None else [None] * rank)]


def range_length(start: Size, limit: Size, delta: Size) -> Size | None:
    """The length of a Range of integers (ONNX, Range: max(ceil((limit - start) / delta), 0))."""
    if not isinstance(delta, int) or delta == 0:
        return None
    steps = -floor_div(start - limit, delta)
    return size_max(steps, 0)


def _range(site: NodeView) -> Sequence[PartialType]:
    dtype = site.dtype(0) or site.dtype(1) or site.dtype(2)
    floats = [site.floats(position) for position in range(3)] if dtype in FLOATS else [None]
    if all(floats):
        first, last, step = (numbers[0] for numbers in floats if numbers)
        with np.errstate(all="ignore"):
            first, last = map(KINDS[dtype or FLOAT], (first, last))
            steps = float(last - first) / step if step else inf  # as ONNX Runtime has it
        require(isfinite(steps))
        return [PartialType(dtype, [max(ceil(steps), 0)])]
    bounds = [_bound(site, position) for position in range(3)]
    if not all(bounds):
        return [PartialType(dtype, [None])]
    scale = lcm(*(under for _, under in filter(None, bounds)))
    start, limit, delta = (over * (scale // under) for over, under in filter(None, bounds))
    return [PartialType(dtype, [range_length(start, limit, delta)])]


def _bound(site: NodeView, position: int) -> tuple[Size, int] | None:
    """A bound of a Range as a fraction: exact for a constant float, because it is combined with sizes."""
    floats = site.floats(position) if site.dtype(position) in FLOATS else None
    if not floats:
        sizes = site.sizes(position)
        return (sizes[0], 1) if sizes else None
    require(isfinite(floats[0]))
    over, under = floats[0].as_integer_ratio()
    return (over, under) if under <= MAX_DIVISOR else None


def _random(site: NodeView) -> Sequence[PartialType]:
    return [PartialType(site.attribute("dtype", FLOAT), site.attribute("shape"))]


def _resize(site: NodeView) -> Sequence[PartialType]:
    """Sizes as given, or each size times its scale; omitted axes keep their size."""
    dtype, shape = site.ranked_type(0)
    axes = [normalize_axis(axis, len(shape)) for axis in site.attribute("axes") or range(len(shape))]
    given: Sequence[Size | None] | None = None
    if site.has(3) and site.attribute("keep_aspect_ratio_policy", "stretch") == "stretch":
        target = site.value(3)
        given = None if target is None else target.reshape(-1).tolist()
    elif not site.has(3):
        position = 1 if site.node.op == "Upsample" or site.opset < 11 else 2
        scales = site.floats(position) if site.has(position) else site.attribute("scales")
        pairs = zip(axes, scales or (), strict=False)
        given = None if scales is None else [scaled(shape[axis], scale) for axis, scale in pairs]
    sizes: list[Size | None] = list(shape)
    for place, axis in enumerate(axes):
        sizes[axis] = None if given is None or place >= len(given) else given[place]
    return [PartialType(dtype, sizes)]


def _frames(site: NodeView) -> Sequence[PartialType]:
    """STFT: [batch, frames, bins, 2] of a signal [batch, length, 1 or 2]."""
    dtype, signal = site.facts(0)
    require(signal is None or len(signal) in (2, 3))
    step, length = site.sizes(1), site.sizes(3) if site.has(3) else site.shape(2)
    if signal is None or not step or not length:
        return [PartialType(dtype, None if signal is None else [signal[0], None, None, 2])]
    window = length[0]
    bins = floor_div(window, 2) + 1 if site.attribute("onesided", 1) else window
    return [PartialType(dtype, [signal[0], floor_div(signal[1] - window, step[0]) + 1, bins, 2])]


def _truth(site: NodeView) -> Sequence[TensorType]:
    return [TensorType(BOOL, ())]


RULES: dict[str, Rule] = {
    "Constant": _constant,
    "Shape": _shape,
    "Size": _size,
    "ConstantOfShape": _filled,
    "Range": _range,
    "RandomNormal": _random,
    "RandomUniform": _random,
    "STFT": _frames,
    "OptionalHasElement": _truth,
    "Resize": _resize,
    "Upsample": _resize,
}


LABELS: dict[str, LabelRule] = {"ConstantOfShape": unrelated, "Resize": resized, "Upsample": resized}
