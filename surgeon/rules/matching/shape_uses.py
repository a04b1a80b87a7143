"""Nodes that read only the shape of an inner tensor, and other tensors with the same sizes.

A mask is often as large as its scores: `scores.shape[-1]`.  The match still owns the values of the scores, and their
sizes are those of queries and keys, which stay.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from surgeon.connected_components import reachable
from surgeon.ir.scope import Node
from surgeon.ops.traits.trait_lookup import ops_with
from surgeon.rules.matching.match_state import MatchState
from surgeon.shapes.algebra.size_expressions import Size
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.tensor_types import Shape

ASKING = ops_with("returns_sizes")


class SizeRange(NamedTuple):
    """Consecutive sizes."""

    name: str | None
    """Tensor that has them as dims; None: `sizes` are numbers."""
    first: int
    """First of these axes."""
    sizes: tuple[Size, ...]
    """The sizes."""

    @property
    def stop(self) -> int:
        """The axis after the last one."""
        return self.first + len(self.sizes)


class ShapeUse(NamedTuple):
    """A node that reads only the shape of an inner tensor."""

    node: Node
    """The reader."""
    parts: tuple[SizeRange, ...]
    """Where else its sizes are available, in order."""
    nodes: tuple[Node, ...]
    """Nodes of the match that produce the tensor, which show that the sizes are equal."""


def find_shape_uses(state: MatchState, nodes: Sequence[Node], names: Sequence[str]) -> tuple[ShapeUse, ...]:
    """The nodes outside of a match that read only the sizes of inner tensors, if other tensors have these sizes.

    A reader of values still blocks the match.
    """
    inside, scope = set(nodes), state.scope
    inner = [name for node in nodes for name in node.outputs if name and name not in names]
    readers = dict.fromkeys(reader for name in inner for reader in scope.readers(name))
    asking = [node for node in readers if node.op in ASKING and node.scope is scope and node not in inside]
    if not asking:
        return ()
    made = {name for node in nodes for name in node.outputs}
    around = list(dict.fromkeys(name for node in nodes for name in node.inputs if name and name not in made))
    found = (_elsewhere(state, node, inside, around) for node in asking)
    return tuple(asked for asked in found if asked is not None)


def _elsewhere(state: MatchState, node: Node, inside: set[Node], around: Sequence[str]) -> ShapeUse | None:
    """The sources of the sizes that a node reads; None if one size is not available."""
    facts = shapes_of(state.index).facts
    shape = facts(state.scope, node.inputs[0]).shape
    bounds = None if shape is None else asked_axes(node, len(shape))
    if shape is None or bounds is None:
        return None
    known = {name: facts(state.scope, name).shape for name in around if _is_before(state, name, node)}
    shapes = {name: found for name, found in known.items() if found is not None}
    wanted = shape[slice(*bounds)]
    parts = list(_parts(wanted, shapes))
    if sum(len(part.sizes) for part in parts) != len(wanted):
        return None
    return ShapeUse(node, tuple(parts), tuple(_producers_inside(state, node.inputs[0], inside)))


def asked_axes(node: Node, rank: int) -> tuple[int, int] | None:
    """The range of axes whose sizes a node reads; None if an attribute is a reference."""
    bounds = []
    for name, default in (("start", 0), ("end", rank)):
        item = node.attribute(name)
        if item is not None and item.ref_attr_name:
            return None
        bounds.append(default if item is None else int(item.i))
    first, behind, _ = slice(*bounds).indices(rank)  # clamped as ONNX's Shape-15 has it
    return first, max(first, behind)


def _is_before(state: MatchState, name: str, node: Node) -> bool:
    """Whether a tensor exists before a node, so that it cannot depend on it."""
    maker = state.producers.get(name)
    return maker is None or maker.slot < node.slot


def _parts(sizes: Shape, known: dict[str, Shape]) -> Iterator[SizeRange]:
    """Sizes as few ranges, up to the first that no tensor has."""
    at = 0
    while at < len(sizes):
        rest = sizes[at:]
        best = SizeRange(None, 0, tuple(_numbers(rest)))
        for name, shape in known.items():
            for axis in range(len(shape)):
                run = _run(rest, shape[axis:])
                is_known = all(isinstance(size, int) for size in run)
                if len(run) > len(best.sizes) and not is_known:
                    best = SizeRange(name, axis, run)
        if not best.sizes:
            return
        yield best
        at += len(best.sizes)


def _numbers(sizes: Shape) -> Iterator[int]:
    for size in sizes:
        if not isinstance(size, int):
            return
        yield size


def _run(sizes: Shape, others: Shape) -> Shape:
    """The sizes up to the first that differs from the other's."""
    pairs = list(zip(sizes, others, strict=False))
    same = next((place for place, (one, other) in enumerate(pairs) if one != other), len(pairs))
    return sizes[:same]


def _producers_inside(state: MatchState, name: str, inside: set[Node]) -> list[Node]:
    """The nodes of the match that a tensor is computed by."""

    def made(names: Iterable[str]) -> list[Node]:
        return [node for text in names if (node := state.producers.get(text)) is not None and node in inside]

    return sorted(reachable(made([name]), lambda node: made(node.inputs)), key=lambda node: node.slot)
