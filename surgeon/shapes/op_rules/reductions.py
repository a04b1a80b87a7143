"""Rules for ops that reduce axes to one element."""

from collections.abc import Sequence

from surgeon.ops.traits.trait_lookup import ops_with
from surgeon.shapes.op_rules.axis_labels import AxisLabels, LabelRule, OpView, axis_of, rank
from surgeon.shapes.tensor_types import (
    INT64,
    NodeView,
    PartialType,
    Rule,
    TensorType,
    length_of,
    normalize_axis,
    require,
)


def _reduce(site: NodeView) -> Sequence[PartialType]:
    dtype, shape = site.ranked_type(0)
    keep = site.attribute("keepdims", 1)
    axes = site.axes(1)
    if axes is None and site.has_axes(1):
        count = length_of(site.shape(1))
        rank = len(shape) if keep else None if not count else len(shape) - count
        return [PartialType(dtype, None if rank is None else [None] * rank)]
    if not axes and site.attribute("noop_with_empty_axes", 0):
        return [PartialType(dtype, shape)]
    gone = {normalize_axis(axis, len(shape)) for axis in axes} if axes else set(range(len(shape)))
    sizes = [1 if axis in gone else size for axis, size in enumerate(shape) if keep or axis not in gone]
    return [PartialType(dtype, sizes)]


def _arg(site: NodeView) -> Sequence[TensorType]:
    _, shape = site.ranked_type(0)
    axis = normalize_axis(site.attribute("axis", 0), len(shape))
    one = (1,) if site.attribute("keepdims", 1) else ()
    return [TensorType(INT64, (*shape[:axis], *one, *shape[axis + 1 :]))]


RULES: dict[str, Rule] = {
    **dict.fromkeys(ops_with(lambda op: op.numerics.reduces), _reduce),
    "ArgMax": _arg,
    "ArgMin": _arg,
}


def _without(view: OpView, gone: Sequence[int]) -> AxisLabels:
    """Labels where some axes are reduced to one element, or dropped."""
    axes, keep = range(rank(view, 0)), view.attribute("keepdims", 1)
    output = [None if axis in gone else axis for axis in axes if keep or axis not in gone]
    return AxisLabels({0: axes}, output, mixed=gone)


def reduced(view: OpView) -> AxisLabels:
    axes, every = view.axes(1), range(rank(view, 0))
    require(axes is not None or not view.has_axes(1))
    if axes:
        return _without(view, [normalize_axis(axis, len(every)) for axis in axes])
    return _without(view, [] if view.attribute("noop_with_empty_axes", 0) else every)


LABELS: dict[str, LabelRule] = {
    **dict.fromkeys(("ArgMax", "ArgMin"), lambda view: _without(view, [axis_of(view, 0)])),
}
