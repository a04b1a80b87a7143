"""The numbers in a node's inputs that set sizes of its output."""

from collections.abc import Callable
from typing import NamedTuple

from surgeon.shapes.op_rules.indexing import slice_parameters
from surgeon.shapes.tensor_types import NodeView, normalize_axis


class SizeInput(NamedTuple):
    """The element of an input that is the size of an axis of the output."""

    position: int
    """The position of the input."""
    place: int
    """The index of the number in it."""


def size_input(view: NodeView, axis: int) -> SizeInput | None:
    """The number that sets the size of an axis of the output; None if no single number does so."""
    return SIZE_INPUTS[view.op](view, axis) if view.op in SIZE_INPUTS else None


def _expand(view: NodeView, axis: int) -> SizeInput | None:
    """The target of an axis that is new or repeated."""
    target, made, shape = view.value(1), view.made_shape(), view.shape(0)
    if target is None or made is None or shape is None:
        return None
    own = axis - len(made) + len(shape)
    return SizeInput(1, axis - len(made) + target.size) if own < 0 or shape[own] == 1 else None


def _slice(view: NodeView, axis: int) -> SizeInput | None:
    """The end, if the Slice selects all elements before it."""
    found, shape = slice_parameters(view), view.shape(0)
    if found is None or shape is None or not view.has(2):
        return None
    for place, (start, _, along, step) in enumerate(zip(*found, strict=True)):
        if normalize_axis(along, len(shape)) == axis and (start, step) == (0, 1):
            return SizeInput(2, place)
    return None


SIZE_INPUTS: dict[str, Callable[[NodeView, int], SizeInput | None]] = {
    "AffineGrid": lambda _, axis: None if axis else SizeInput(1, axis),  # the axes of pictures and grids differ
    "ConstantOfShape": lambda _, axis: SizeInput(0, axis),
    "Expand": _expand,
    "Range": lambda view, _: SizeInput(1, 0) if view.sizes(0) == [0] and view.sizes(2) == [1] else None,
    "Resize": lambda view, axis: SizeInput(3, axis) if view.has(3) and not view.attribute("axes") else None,
    "Slice": _slice,
    "Tile": lambda _, axis: SizeInput(1, axis),  # repetitions: the size of an axis of size 1
}
"""By op, from a node and an axis of its output."""
