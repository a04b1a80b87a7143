"""Labels of axes: axes of an op's inputs and output with one label correspond.

The labels of an op are next to its shape rule.  This module has the consequences: sizes that must be equal, the source
of each axis of the output, and the shape of the output.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from surgeon.shapes.algebra.size_expressions import Size
from surgeon.shapes.op_rules.broadcasting import broadcast_size, more_specific_size
from surgeon.shapes.tensor_types import (
    CannotInfer,
    NodeView,
    Rule,
    Shape,
    TensorType,
    normalize_axis,
    require,
    run_rule,
)

Labels: TypeAlias = Sequence[Hashable]
"""A label for each axis; None for one that corresponds to no other."""


class Axis(NamedTuple):
    """An axis of an input."""

    position: int
    """The position of the input."""
    axis: int
    """The axis."""
    size: Size
    """Its size."""


class AxisLabels(NamedTuple):
    """The labels of the axes of an op."""

    inputs: Mapping[int, Labels]
    """The labels by position of the input; without inputs whose axes correspond to nothing."""
    output: Labels | None = None
    """The labels of the first output; None if unknown."""
    broadcast: Collection[Hashable] = ()
    """Labels along which a size of 1 is compatible with any other."""
    mixed: Collection[Hashable] = ()
    """Labels along which the op combines elements: an element of an output depends on several positions."""
    joined: Collection[Hashable] = ()
    """Labels whose sizes add up to the one axis of the output with the label None (Concat)."""

    def axes(self, view: NodeView) -> Iterable[tuple[Hashable, list[Axis]]]:
        """The axes of the inputs by label, without broadcast axes of size 1."""
        found: dict[Hashable, list[Axis]] = {}
        for position, labels in self.inputs.items():
            shape = view.facts(position).shape or ()
            require(len(shape) == len(labels))
            for axis, (label, size) in enumerate(zip(labels, shape, strict=True)):
                axes = [] if label is None else found.setdefault(label, [])
                if size != 1 or label not in self.broadcast:
                    axes.append(Axis(position, axis, size))
        return found.items()

    def equal_sizes(self, view: NodeView) -> Iterator[tuple[Size, Size]]:
        """Pairs of sizes that must be equal, those of the last axes first."""
        for _, axes in reversed(list(self.axes(view))):
            yield from pairwise([axis.size for axis in axes])

    def origins(self, axis: int) -> Iterator[tuple[int, int]]:
        """The inputs, and their axes, that correspond to an axis of the output."""
        wanted = self.output[axis] if self.output is not None else None
        for position, labels in self.inputs.items():
            if wanted is not None and wanted in labels:
                yield position, list(labels).index(wanted)

    def output_shape(self, view: NodeView) -> Shape | None:
        """The shape of the output, in which a new axis is of size 1; None if it is unknown."""
        sizes: dict[Hashable, Size] = {}
        for label, axes in self.axes(view):
            of_axes = [axis.size for axis in axes]
            size = broadcast_size(of_axes) if label in self.broadcast else reduce(more_specific_size, of_axes)
            sizes[label] = 1 if size is None else size
        total: Size = 0 if self.joined else 1
        for label in self.joined:
            total = total + sizes[label]
        return None if self.output is None else tuple(total if x is None else sizes.get(x, 1) for x in self.output)


LabelRule: TypeAlias = Callable[[NodeView], AxisLabels]
"""It raises CannotInfer if nothing is known."""


def shaped(rule: LabelRule, dtype: Callable[[NodeView], int | None] = lambda site: site.dtype(0)) -> Rule:
    """The shape rule of an op whose output has the labelled axes, by default of the first input's dtype."""

    def shape(site: NodeView) -> Shape | None:
        return rule(site).output_shape(site)

    return lambda site: [TensorType(dtype(site), run_rule(shape, site))]


def rank(view: NodeView, position: int) -> int:
    """The rank of an input; raises CannotInfer if it is unknown."""
    shape = view.facts(position).shape
    if shape is None:
        raise CannotInfer("the rank is unknown")
    return len(shape)


def axis_of(view: NodeView, default: int) -> int:
    """The axis of the first input in an attribute."""
    axis = view.attribute("axis", default)
    require(isinstance(axis, int))
    return normalize_axis(axis, rank(view, 0))


def unrelated(_: NodeView) -> AxisLabels:
    """Each element is computed separately, and no axes correspond."""
    return AxisLabels({})


def same_axes(view: NodeView) -> AxisLabels:
    """The output has the axes of the first input."""
    axes = range(rank(view, 0))
    return AxisLabels({0: axes}, axes)


def combining(default: int = -1, behind: bool = False) -> LabelRule:
    """Labels of an op that combines elements along the axis in an attribute, or along it and all after it."""

    def rule(view: NodeView) -> AxisLabels:
        labels, axis = same_axes(view), axis_of(view, default)
        return labels._replace(mixed=labels.inputs[0][axis:] if behind else [axis])

    return rule


def resized(view: NodeView) -> AxisLabels:
    """Labels of an op that changes sizes: axes with unchanged sizes correspond."""
    shape, made = view.shape(0), view.made_shape()
    require(shape is not None and made is not None and len(shape) == len(made))
    changed = [axis for axis, (one, other) in enumerate(zip(shape or (), made or (), strict=True)) if one != other]
    output = [("made", axis) if axis in changed else axis for axis in range(len(made or ()))]
    return AxisLabels({0: range(len(shape or ()))}, output, mixed=[*changed, *[("made", axis) for axis in changed]])


def per_sample(view: NodeView) -> AxisLabels:
    """Labels of an op on [N, ...] that computes each sample separately, from all of its elements."""
    require(not view.attribute("training_mode", 0) and view.outputs == 1)  # else statistics or indices of all samples
    axes, others = range(rank(view, 0)), [place for place in range(1, len(view.inputs)) if view.has(place)]
    labels = {place: [(place, axis) for axis in range(rank(view, place))] for place in others}
    return AxisLabels({0: axes, **labels}, mixed=[*axes[1:], *[label for found in labels.values() for label in found]])


def unknown(_: NodeView) -> AxisLabels:
    """Labels of an op whose results may each depend on all elements."""
    raise CannotInfer("the op combines all elements")
