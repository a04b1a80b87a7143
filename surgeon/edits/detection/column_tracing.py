"""Traces one index of a tensor's axis back through nodes that only move numbers."""

from collections.abc import Iterator

from surgeon.ir.scope import Node
from surgeon.ops.traits.dtype_traits import CLIP_BOUNDS
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.shapes.op_rules.element_origins import MOVES, POSITION_ORIGINS
from surgeon.shapes.tensor_types import Shape

Place = tuple[int, int]  # an axis, and an index along it


def shape_of(draft: ModelDraft, name: str) -> Shape | None:
    """The shape of a tensor of the main graph."""
    return draft.shapes.shape(draft.index.main, name)


def is_constant(draft: ModelDraft, name: str) -> bool:
    """Whether a tensor of the main graph is constant."""
    return draft.index.constants.is_constant(draft.index.main, name)


def trace(draft: ModelDraft, name: str, axis: int | None = None, place: int = 0) -> Iterator[str]:
    """A tensor, and the tensors that its numbers at one index of an axis come from, back to their computation.

    axis: None for any index.  An empty name comes last if the index cannot be traced.
    """
    yield from (each for each, _ in places(draft, name, None if axis is None else (axis, place)))


def places(draft: ModelDraft, name: str, at: Place | None) -> Iterator[tuple[str, Place | None]]:
    """As `trace`, with the axis and the index of each tensor."""
    while True:
        yield name, at
        node, shape = draft.index.main.producers.get(name), shape_of(draft, name)
        if node is None or (node.op not in MOVES and not scales(draft, node)):
            return
        if at is None or node.op not in POSITION_ORIGINS or scales(draft, node):
            name = next((each for each in node.inputs if not is_constant(draft, each)), "")
        else:
            moved = None if shape is None else POSITION_ORIGINS[node.op](draft.index, node, name, at)
            if moved is None:
                yield "", None
                return
            name, at = moved
        if not name:
            return


def maker_of(draft: ModelDraft, name: str, axis: int, place: int) -> Node | None:
    """The node that computes the numbers of a tensor at one index of an axis; None if that is unknown."""
    *_, last = trace(draft, name, axis, place)
    return draft.index.main.producers.get(last)


def scales(draft: ModelDraft, node: Node) -> bool:
    """Whether a node multiplies by a constant, or clamps."""
    return node.op in CLIP_BOUNDS or (_is_product(node) and sum(is_constant(draft, name) for name in node.inputs) == 1)


def _is_product(node: Node) -> bool:
    """Whether a node multiplies or divides two tensors."""
    algebra = traits_of(node.op).algebra
    return algebra.family == "product" and len(algebra.signs) == 2


def changes_size(draft: ModelDraft, name: str, at: Place | None) -> bool:
    """Whether a tensor is a product with a constant that is not 1, at one index of an axis or anywhere."""
    node = draft.index.main.producers.get(name)
    if node is None or not _is_product(node) or not scales(draft, node):
        return False
    factor = next(each for each in node.inputs if is_constant(draft, each))
    array, rank = draft.index.constants.array(draft.index.main, factor), len(shape_of(draft, name) or ())
    axis = None if at is None or array is None else at[0] - rank + array.ndim
    if array is not None and axis is not None and axis >= 0 and array.shape[axis] > 1:
        array = array.take(at[1] if at else 0, axis)
    return array is None or bool((array != 1).any())
