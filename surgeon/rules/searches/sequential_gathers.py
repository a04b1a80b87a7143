"""Gathers whose indices count up: the elements of a tensor in order, as exporters write mask[b, k]."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.trait_lookup import GATHERS, RESHAPE_OPS, TUPLE_GATHERS
from surgeon.rules.matching.match_state import VariadicBinding
from surgeon.rules.matching.pattern import Found, Search
from surgeon.shapes.algebra.size_expressions import Size, product
from surgeon.shapes.index_shapes import elements_of
from surgeon.shapes.op_rules.values.affine_index import AffineIndex, split_by_axis
from surgeon.shapes.op_rules.values.symbolic_elements import SymbolicElements
from surgeon.shapes.tensor_types import INT64, Shape

FARTHEST = 64  # maximum number of tensors that are searched for a size


class _Selection(NamedTuple):
    """The elements that a gather selects."""

    x: str
    """Tensor that it selects from."""
    indices: str
    """Its indices."""
    nodes: tuple[Node, ...]
    """Nodes that it consists of."""
    steps: list[AffineIndex]
    """For each axis of x, the index as an affine function of the output position."""
    shape: Shape
    """Shape of the result."""
    kept: tuple[Node, ...] = ()
    """The node that flattens x, if it has other readers."""


def _gathers_in_order(index: Index, scope: Scope) -> Iterator[Found]:
    """GatherND, and Gather of a flattened tensor, whose indices count up from 0 along each axis of the data.

    Binds `x`; `places`: for each axis of the result the axis of x that it is, None for one of size 1; `cut`: the axes
    of x of which only the first part is picked; `lengths`: how long the parts are, for each of these axes.
    """
    elements = elements_of(index)
    for node in [*scope.nodes_of(TUPLE_GATHERS), *scope.nodes_of(GATHERS)]:
        if not node.alive:
            continue
        selection = _by_grid(elements, node) if node.op in TUPLE_GATHERS else _by_flat_index(index, elements, node)
        found = None if selection is None else _found(elements, scope, selection)
        if found is not None:
            yield found


gathers_in_order = Search(_gathers_in_order, "no Gather reads all elements of a tensor in their order")


def _by_grid(elements: SymbolicElements, node: Node) -> _Selection | None:
    """A GatherND with a column of indices for each axis of its tensor, or for the first axes."""
    x, indices = node.inputs
    batched = node.attribute("batch_dims")
    own, shape = (elements.shapes.facts(node.scope, name).shape for name in node.inputs)
    if own is None or not shape or not isinstance(shape[-1], int) or (batched is not None and batched.i):
        return None
    columns = elements.columns(node.scope, indices)
    if columns is None or not 0 < shape[-1] <= len(own):
        return None
    whole = own[shape[-1] :]  # axes after the indexed ones
    steps = [AffineIndex(step.offset, (*step.strides, *[0] * len(whole))) for step in columns]
    axes = range(len(shape) - 1 + len(whole))
    steps += [AffineIndex(0, tuple(int(at == axis) for at in axes)) for axis in axes[len(shape) - 1 :]]
    return _Selection(x, indices, (node,), steps=steps, shape=(*shape[:-1], *whole))


def _by_flat_index(index: Index, elements: SymbolicElements, node: Node) -> _Selection | None:
    """A Gather of a flattened tensor, whose indices are sums of an index for each axis times its stride."""
    scope, axis = node.scope, node.attribute("axis")
    flat = scope.producers.get(node.inputs[0])
    if flat is None or flat.op not in RESHAPE_OPS or (axis is not None and axis.i):
        return None
    x, indices = flat.inputs[0], node.inputs[1]
    facts = [elements.shapes.facts(scope, name).shape for name in (x, flat.outputs[0], indices)]
    own, line, shape = facts
    if own is None or not line or shape is None or line[0] != product(own) or any(size != 1 for size in line[1:]):
        return None
    nodes: tuple[Node, ...] = (node,)
    if len(line) > 1:
        (end,) = readers if len(readers := scope.readers(node.outputs[0])) == 1 else (node,)
        is_shaped = end.op in RESHAPE_OPS and elements.shapes.facts(scope, end.outputs[0]).shape == shape
        if not is_shaped or index.pin_reason(scope, node.outputs[0]) is not None:
            return None
        nodes = (node, end)
    found = elements.affine(scope, indices)
    steps = None if found is None else split_by_axis(found, own)
    if steps is None:
        return None
    is_shared = len(scope.readers(flat.outputs[0])) > 1 or index.pin_reason(scope, flat.outputs[0]) is not None
    return _Selection(
        x, indices, nodes if is_shared else (flat, *nodes), steps=steps, shape=shape, kept=(flat,) if is_shared else ()
    )


def _found(elements: SymbolicElements, scope: Scope, selection: _Selection) -> Found | None:
    """The place, if the elements along each axis are consecutive from its start."""
    own = elements.shapes.facts(scope, selection.x).shape or ()
    places: list[int | None] = [None] * len(selection.shape)
    behind, cut, lengths = -1, [], []
    for axis, (step, size) in enumerate(zip(selection.steps, own, strict=True)):
        along = [at for at, stride in enumerate(step.strides) if stride != 0]
        if step.offset != 0 or len(along) > 1 or (not along and size != 1):
            return None
        place = along[0] if along else behind + 1
        if place <= behind or place >= len(places) or (along and step.strides[place] != 1):
            return None
        places[place], behind = axis, place
        if size != selection.shape[place]:
            length = _size_tensor(elements, scope, selection.indices, selection.shape[place])
            if length is None:
                return None
            cut.append(axis)
            lengths.append(length)
    if any(place is None and size != 1 for place, size in zip(places, selection.shape, strict=True)):
        return None
    if len(cut) > 1 and selection.nodes[0].op not in TUPLE_GATHERS:
        return None  # a flat index past the end of an axis continues in the next one, so only one axis may be cut
    output = selection.nodes[-1].outputs[0]
    bound: dict[str, Any] = {"x": selection.x, "places": (places,), "cut": (cut,), "lengths": VariadicBinding(lengths)}
    return Found(selection.nodes, (output,), bound, selection.kept)


def _size_tensor(elements: SymbolicElements, scope: Scope, name: str, size: Size) -> str | None:
    """An integer tensor of one element that equals this size, among those that another is computed from."""
    waiting, seen = [name], {name}
    while waiting and len(seen) < FARTHEST:
        here = waiting.pop(0)
        facts = elements.shapes.facts(scope, here)
        if facts.dtype == INT64 and facts.shape is not None and product(facts.shape) == 1:
            value = elements.shapes.value(scope, here)
            if value is not None and value.reshape(-1)[0] == size:
                return here
        home = scope.defining_scope(here)
        node = None if home is None else home.producers.get(here)
        fresh = [read for read in (() if node is None else node.inputs) if read and read not in seen]
        seen.update(fresh)
        waiting += fresh
    return None
