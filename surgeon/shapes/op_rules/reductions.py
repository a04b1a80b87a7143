"""Rules for ops that reduce axes to one element."""

from collections.abc import Sequence

from surgeon.ops.traits.trait_lookup import ops_with
from surgeon.shapes.op_rules.axis_labels import AxisLabels, LabelRule, axis_of, rank
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
    return [PartialType(dtype, reduced(site).output_shape(site))]


def _without(view: NodeView, gone: Sequence[int]) -> AxisLabels:
    """Labels if some axes are reduced to one element, or dropped."""
    axes, keep = range(rank(view, 0)), view.attribute("keepdims", 1)
    output = [None if axis in gone else axis for axis in axes if keep or axis not in gone]
    return AxisLabels({0: axes}, output, mixed=gone)


def reduced(view: NodeView) -> AxisLabels:
    axes, every = view.axes(1), range(rank(view, 0))
    require(axes is not None or not view.has_axes(1))
    if axes:
        return _without(view, [normalize_axis(axis, len(every)) for axis in axes])
    return _without(view, [] if view.attribute("noop_with_empty_axes", 0) else every)


def _arg(view: NodeView) -> AxisLabels:
    return _without(view, [axis_of(view, 0)])


LABELS: dict[str, LabelRule] = {
    **dict.fromkeys(("ArgMax", "ArgMin"), _arg),
}
RULES: dict[str, Rule] = {
    **dict.fromkeys(ops_with("reduces"), _reduce),
    **dict.fromkeys(("ArgMax", "ArgMin"), lambda site: [TensorType(INT64, _arg(site).output_shape(site))]),
}
