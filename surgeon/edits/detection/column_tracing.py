"""Where the numbers at one place of a tensor's axis come from: through nodes that hand numbers on as they are."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from surgeon.ir.scope import Node
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.shapes.algebra.size_expressions import product
from surgeon.shapes.tensor_types import Shape, normalize_axis

MOVES = frozenset(
    (
        *("Cast", "Concat", "Flatten", "Gather", "GatherElements", "GatherND", "Identity"),
        *("Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"),
    )
)
"""Nodes that hand on numbers as they are."""


Place = tuple[int, int]  # an axis, and a place along it


def shape_of(draft: ModelDraft, name: str) -> Shape | None:
    """The shape of a tensor of the main graph."""
    return draft.shapes.shape(draft.index.main, name)


def is_constant(draft: ModelDraft, name: str) -> bool:
    """Whether a tensor of the main graph is fixed in the file."""
    return draft.index.constants.is_constant(draft.index.main, name)


def _size_of(shape: Sequence[Any] | None, axis: int) -> Any:
    return None if shape is None else shape[axis]


def trace(draft: ModelDraft, name: str, axis: int | None = None, place: int = 0) -> Iterator[str]:
    """A tensor, and those that the numbers at one place of an axis are handed on from, back to what computes them.

    axis: None for any place.  An empty name comes last where the graph does not tell the place.
    """
    yield from (each for each, _ in places(draft, name, None if axis is None else (axis, place)))


def places(draft: ModelDraft, name: str, at: Place | None) -> Iterator[tuple[str, Place | None]]:
    """As `trace`, with the axis and the place of each tensor."""
    while True:
        yield name, at
        node, shape = draft.index.main.producers.get(name), shape_of(draft, name)
        if node is None or (node.op not in MOVES and not scales(draft, node)):
            return
        if at is None or node.op in ("Cast", "Identity") or scales(draft, node):
            name = next((each for each in node.inputs if not is_constant(draft, each)), "")
        else:
            moved = _STEPS[node.op](draft, node, name, at) if node.op in _STEPS and shape is not None else None
            if moved is None:
                yield "", None
                return
            name, at = moved
        if not name:
            return


def maker_of(draft: ModelDraft, name: str, axis: int, place: int) -> Node | None:
    """The node that computes the numbers of a tensor at one place of an axis; None where that is not told."""
    *_, last = trace(draft, name, axis, place)
    return draft.index.main.producers.get(last)


def scales(draft: ModelDraft, node: Node) -> bool:
    """Whether a node multiplies with constants, or keeps numbers within limits."""
    if node.op in ("Clip", "Min", "Max"):
        return True
    return node.op in ("Mul", "Div") and sum(is_constant(draft, name) for name in node.inputs) == 1


def changes_size(draft: ModelDraft, name: str, at: Place | None) -> bool:
    """Whether a tensor is another times a constant that is not 1, at one place of an axis or at all."""
    node = draft.index.main.producers.get(name)
    if node is None or node.op not in ("Mul", "Div") or not scales(draft, node):
        return False
    factor = next(each for each in node.inputs if is_constant(draft, each))
    array, rank = draft.index.constants.array(draft.index.main, factor), len(shape_of(draft, name) or ())
    axis = None if at is None or array is None else at[0] - rank + array.ndim
    if array is not None and axis is not None and axis >= 0 and array.shape[axis] > 1:
        array = array.take(at[1] if at else 0, axis)
    return array is None or bool((array != 1).any())


_Step = tuple[str, Place | None]


def _of_concat(draft: ModelDraft, node: Node, _: str, at: tuple[int, int]) -> _Step | None:
    axis, place = at
    given = node.attribute("axis")
    shape = shape_of(draft, node.outputs[0]) or ()
    if given is None or normalize_axis(given.i, len(shape)) != axis:
        return node.inputs[0], at  # all levels are written alike
    for part in node.inputs:
        size = _size_of(shape_of(draft, part), axis)
        if not isinstance(size, int):
            return None
        if place < size:
            return part, (axis, place)
        place -= size
    return None


def _of_reshape(draft: ModelDraft, node: Node, _: str, at: Place) -> _Step | None:
    """The axis of the input that has as many elements before it, or the same sizes from it on.

    Where it is of size 1 or new, there is none.
    """
    before, after = (shape_of(draft, name) for name in (node.inputs[0], node.outputs[0]))
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


def _of_transpose(draft: ModelDraft, node: Node, _: str, at: tuple[int, int]) -> _Step | None:
    order = node.attribute("perm")
    rank = len(shape_of(draft, node.outputs[0]) or ())
    return node.inputs[0], (order.ints[at[0]] if order is not None else rank - 1 - at[0], at[1])


def _of_split(draft: ModelDraft, node: Node, name: str, at: tuple[int, int]) -> _Step | None:
    given = node.attribute("axis")
    rank = len(shape_of(draft, name) or ())
    if (given.i if given is not None else 0) % rank != at[0]:
        return node.inputs[0], at
    sizes = [
        _size_of(shape_of(draft, each), at[0])
        for each in node.outputs[: node.outputs.index(name)]
    ]
    return (node.inputs[0], (at[0], at[1] + sum(sizes))) if all(isinstance(size, int) for size in sizes) else None


def _of_slice(draft: ModelDraft, node: Node, name: str, at: tuple[int, int]) -> _Step | None:
    sizes = [_size_of(shape_of(draft, each), at[0]) for each in (node.inputs[0], name)]
    if sizes[0] == sizes[1]:
        return node.inputs[0], at
    starts = draft.index.constants.array(draft.index.main, node.inputs[1]) if len(node.inputs) > 1 else None
    if starts is None or starts.size != 1:
        return None
    start = int(starts.flat[0])
    return node.inputs[0], (at[0], at[1] + (start if start >= 0 else sizes[0] + start))


def _of_gather(draft: ModelDraft, node: Node, _: str, at: tuple[int, int]) -> _Step | None:
    """What is taken along another axis, as of the last layer's boxes, leaves the place as it is."""
    shapes = [shape_of(draft, name) for name in node.inputs]
    if shapes[0] is None or shapes[1] is None:
        return None
    given, rank = node.attribute("axis"), len(shapes[1])
    axis = (given.i if given is not None else 0) % len(shapes[0])
    if at[0] >= axis + rank:
        return node.inputs[0], (at[0] - rank + 1, at[1])
    return (node.inputs[0], at) if at[0] < axis else None


def _of_elements(draft: ModelDraft, node: Node, _: str, at: tuple[int, int]) -> _Step | None:
    """What is taken along another axis, whole rows by repeated indices."""
    given, shape = node.attribute("axis"), shape_of(draft, node.inputs[0])
    if shape is None or normalize_axis(given.i if given is not None else 0, len(shape)) == at[0]:
        return None
    return node.inputs[0], at


def _of_tuples(draft: ModelDraft, node: Node, _: str, at: tuple[int, int]) -> _Step | None:
    """The axes behind those that tuples of indices tell."""
    shapes = [shape_of(draft, name) for name in node.inputs]
    if shapes[0] is None or not shapes[1] or not isinstance(shapes[1][-1], int):
        return None
    given, rank = node.attribute("batch_dims"), len(shapes[1]) - 1
    told = (given.i if given is not None else 0) + shapes[1][-1]
    return (node.inputs[0], (told + at[0] - rank, at[1])) if at[0] >= rank else None


_STEPS: Mapping[str, Callable[[ModelDraft, Node, str, tuple[int, int]], _Step | None]] = {
    "Concat": _of_concat,
    "Reshape": _of_reshape,
    "Flatten": _of_reshape,
    "Gather": _of_gather,
    "GatherElements": _of_elements,
    "GatherND": _of_tuples,
    "Unsqueeze": _of_reshape,
    "Squeeze": _of_reshape,
    "Transpose": _of_transpose,
    "Split": _of_split,
    "Slice": _of_slice,
}
