"""Sources of an output's elements: the elements of an op's inputs, by index along one axis."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from surgeon.ir.index import Index
from surgeon.ir.scope import Node
from surgeon.shapes.algebra.size_expressions import product
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.op_rules.rule_table import axis_labels
from surgeon.shapes.tensor_types import Shape, normalize_axis

Position: TypeAlias = tuple[int, int]
"""An axis, and an index along it."""
_Origin: TypeAlias = tuple[str, Position | None]
"""A tensor, and the position in it; None for any."""


def _shape(index: Index, name: str) -> Shape | None:
    return shapes_of(index).shape(index.main, name)


def _size_of(shape: Sequence[Any] | None, axis: int) -> Any:
    return None if shape is None else shape[axis]


def _of_concat(index: Index, node: Node, _: str, at: Position) -> _Origin | None:
    axis, place = at
    given = node.attribute("axis")
    shape = _shape(index, node.outputs[0]) or ()
    if given is None or normalize_axis(given.i, len(shape)) != axis:
        return node.inputs[0], at  # all levels use the same code
    for part in node.inputs:
        size = _size_of(_shape(index, part), axis)
        if not isinstance(size, int):
            return None
        if place < size:
            return part, (axis, place)
        place -= size
    return None


def _of_reshape(index: Index, node: Node, _: str, at: Position) -> _Origin | None:
    """The axis of the input with as many elements before it, or the same sizes from it on.

    There is none if the axis is new or of size 1.
    """
    before, after = (_shape(index, name) for name in (node.inputs[0], node.outputs[0]))
    behind = (after or ())[at[0] :]
    if before is None or after is None or not behind:
        return None
    if len(before) >= len(behind) and tuple(before[-len(behind) :]) == tuple(behind):
        return node.inputs[0], (len(before) - len(behind), at[1])
    if behind[0] == 1:
        return node.inputs[0], None
    ahead = product(after[: at[0]])
    alike = [axis for axis, size in enumerate(before) if size == behind[0] and product(before[:axis]) == ahead]
    return (node.inputs[0], (alike[0], at[1])) if alike else None


def _along_axes(index: Index, node: Node, _: str, at: Position) -> _Origin | None:
    """A selection along another axis, such as the last layer's boxes, does not change the position."""
    labels = axis_labels(shapes_of(index).site(node))
    axes = [] if labels is None else [axis for place, axis in labels.origins(at[0]) if place == 0]
    return (node.inputs[0], (axes[0], at[1])) if axes else None


def _of_split(index: Index, node: Node, name: str, at: Position) -> _Origin | None:
    given = node.attribute("axis")
    rank = len(_shape(index, name) or ())
    if (given.i if given is not None else 0) % rank != at[0]:
        return node.inputs[0], at
    sizes = [_size_of(_shape(index, each), at[0]) for each in node.outputs[: node.outputs.index(name)]]
    return (node.inputs[0], (at[0], at[1] + sum(sizes))) if all(isinstance(size, int) for size in sizes) else None


def _of_slice(index: Index, node: Node, name: str, at: Position) -> _Origin | None:
    sizes = [_size_of(_shape(index, each), at[0]) for each in (node.inputs[0], name)]
    if sizes[0] == sizes[1]:
        return node.inputs[0], at
    starts = index.constants.array(index.main, node.inputs[1]) if len(node.inputs) > 1 else None
    if starts is None or starts.size != 1:
        return None
    start = int(starts.flat[0])
    return node.inputs[0], (at[0], at[1] + (start if start >= 0 else sizes[0] + start))


def _of_elements(index: Index, node: Node, _: str, at: Position) -> _Origin | None:
    """A selection along another axis: whole rows by repeated indices."""
    given, shape = node.attribute("axis"), _shape(index, node.inputs[0])
    if shape is None or normalize_axis(given.i if given is not None else 0, len(shape)) == at[0]:
        return None
    return node.inputs[0], at


POSITION_ORIGINS: Mapping[str, Callable[[Index, Node, str, Position], _Origin | None]] = {
    "Concat": _of_concat,
    "Reshape": _of_reshape,
    "Flatten": _of_reshape,
    "Gather": _along_axes,
    "GatherElements": _of_elements,
    "GatherND": _along_axes,
    "Unsqueeze": _of_reshape,
    "Squeeze": _of_reshape,
    "Transpose": _along_axes,
    "Split": _of_split,
    "Slice": _of_slice,
}
"""From a node, one of its outputs and a position in that: the input and the position of the source."""
MOVES = frozenset((*POSITION_ORIGINS, "Cast", "Identity"))
"""Ops that keep the numbers of an input, and may move them."""
