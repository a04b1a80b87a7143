"""Laws of ops in other layouts: how a node computes the same if its inputs have another order of axes, or shape."""

from collections.abc import Sequence
from typing import NamedTuple

from surgeon.ops.traits.trait_lookup import GATHERS, RESHAPE_OPS, traits_of
from surgeon.shapes.algebra.size_expressions import product
from surgeon.shapes.op_rules.axis_labels import axis_of, rank
from surgeon.shapes.op_rules.rule_table import axis_labels
from surgeon.shapes.tensor_types import CannotInfer, NodeView, Shape, length_of, normalize_axis, require, run_rule

LAYOUT_OPS = RESHAPE_OPS | {"Transpose"}


class Layout(NamedTuple):
    """How a tensor differs from its original: by a Transpose, or by a Reshape."""

    perm: tuple[int, ...]
    """The tensor is the Transpose of the original by this permutation; empty for a Reshape."""
    shape: Shape | None = None
    """The shape of the original of a Reshape; None for a Transpose."""


class Law(NamedTuple):
    """How a node computes with the originals of its inputs."""

    slots: Sequence[int]
    """The inputs of which it reads the originals; it reads others unchanged."""
    behind: Layout
    """The layout of its output."""
    axes: Sequence[int] | None = None
    """The axes of the originals along which it works; None if it refers to no axes, or to the same."""


def layout_of(view: NodeView) -> Layout | None:
    """The layout of the output of a Transpose or a reshaping node, whose input is the original; None for others."""
    shape = view.shape(0) if view.op in LAYOUT_OPS and not _has_open_attributes(view) else None
    if shape is None or view.op in RESHAPE_OPS:
        return None if shape is None else Layout((), shape)
    return Layout(tuple(view.attribute("perm", range(len(shape))[::-1])))


def law_of(view: NodeView, layout: Layout) -> Law | None:
    """The law of a node whose inputs have this layout; None if it has none."""
    return run_rule(_law, view, layout)


def _has_open_attributes(view: NodeView) -> bool:
    """Whether an attribute is a parameter of the function that contains the node."""
    return any(item.ref_attr_name for item in view.node.proto.attribute)


def _law(view: NodeView, layout: Layout) -> Law:
    traits, labels, made = traits_of(view.op), axis_labels(view), view.made_shape()
    is_single = len(view.node.outputs) == 1 and not traits.control.random and not _has_open_attributes(view)
    if labels is None or made is None or not is_single:
        raise CannotInfer("its axes are unknown")
    slots = [slot for slot in range(len(view.inputs)) if view.has(slot)]
    others = [view.shape(slot) for slot in slots[1:]]
    along = [*labels.mixed, *labels.joined]
    if traits.shape.broadcasts:
        is_whole = layout.shape is None or all(is_alike(view.shape(slot), made, layout.shape) for slot in slots)
        require(view.opset >= 7 and is_whole and (layout.shape is not None or len(made) == len(layout.perm)))
        return Law(slots, layout)
    if (traits.keeps_shape or traits.dtype.is_cast) and not along:
        require(all(shape == () or (shape == (1,) and not traits.dtype.is_qdq) for shape in others))
        require(not any(item.ints or item.floats for item in view.node.proto.attribute))  # one number per index
        return Law(slots[:1], layout)
    require(layout.shape is None and rank(view, 0) == len(layout.perm))
    axes = [normalize_axis(axis, len(layout.perm)) for axis in along if isinstance(axis, int)]
    if labels.joined:
        axes = [axis_of(view, 0)]
    if traits.numerics.norm_axis == "axis":
        require(all(layout.perm[axis] == axis for axis in axes))
        require(all(shape is not None and len(shape) <= len(axes) for shape in others))
        return Law(slots[:1], layout)
    if traits.shape.axes is not None:
        axes = _listed_axes(view, len(layout.perm))
    else:
        is_softmax = traits.numerics.is_softmax and view.opset >= 13
        has_axis = is_softmax or bool(labels.joined) or view.op in GATHERS or traits.dtype.returns_indices
        require(has_axis and len(axes) == 1)
    require(view.op not in GATHERS or rank(view, 1) < 2)
    moves, behind = slots if labels.joined else slots[:1], _without(layout.perm, axes, len(made))
    return Law(moves, behind, [layout.perm[axis] for axis in axes])


def is_alike(shape: Shape | None, made: Shape, original: Shape) -> bool:
    """Whether an input has the shape of the result, or one element and no more axes than the original of the result."""
    return shape is not None and (shape == made or (product(shape) == 1 and len(shape) <= len(original)))


def _listed_axes(view: NodeView, count: int) -> list[int]:
    """The axes that a node lists, or a Slice without axes; raises CannotInfer if they are unknown."""
    source = traits_of(view.op).shape.axes
    axes = None if source is None or source.of_result else view.axes(source.slot)
    if source is not None and source.in_order and not view.has_axes(source.slot):
        axes = list(range(length_of(view.shape(1)) or 0))
    if not axes:
        raise CannotInfer("its axes are unknown")
    return [normalize_axis(axis, count) for axis in axes]


def _without(perm: Sequence[int], axes: Sequence[int], rank_behind: int) -> Layout:
    """The layout of a result that has all axes, or all but these."""
    if rank_behind == len(perm):
        return Layout(tuple(perm))
    require(rank_behind == len(perm) - len(axes))
    kept = [original for axis, original in enumerate(perm) if axis not in axes]
    return Layout(tuple(sorted(kept).index(original) for original in kept))
