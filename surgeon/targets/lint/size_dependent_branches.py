"""Ifs whose branches differ in shape, and whose conditions depend only on the sizes of inputs."""

from collections.abc import Iterator
from typing import NamedTuple

from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.trait_lookup import RANDOM
from surgeon.shapes.algebra.size_expressions import symbols
from surgeon.shapes.constraints.input_dims import dynamic_dims, known_dims, required_inputs
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.shapes.tensor_types import Shape, size_text


class SizedIf(NamedTuple):
    """An If whose condition depends on sizes, and whose branches have different output shapes."""

    node: Node
    """The If."""
    dims: tuple[str, ...]
    """Dynamic dims that decide the condition."""
    shapes: tuple[str, str]
    """Shape of an output in each branch, as text."""


def sized_ifs(index: Index) -> Iterator[SizedIf]:
    """The Ifs of which one branch has to go before all shapes are known; local functions are left out."""
    shapes, known = shapes_of(index), known_dims(dynamic_dims(list(required_inputs(index.main.proto).values())))
    for scope in index.scopes:
        for node in scope.by_op.get("If", ()) if scope.function is None else ():
            dims = deciding_sizes(shapes, scope, node.inputs[0]) if node.alive else None
            different = _difference(shapes, node) if dims and dims <= known else None
            if dims and different is not None:
                yield SizedIf(node, tuple(sorted(dims)), different)


def deciding_sizes(shapes: ShapeInference, scope: Scope, name: str) -> frozenset[str] | None:
    """The names of the sizes that a tensor is computed from; None if it depends on anything else."""
    found: set[str] = set()
    waiting, seen = [(scope, name)], set[tuple[Scope, str]]()
    while waiting:
        inner, name = waiting.pop()
        home = inner.defining_scope(name)
        if home is None or (home, name) in seen:
            if home is None:
                return None
            continue
        seen.add((home, name))
        value = shapes.value(home, name)
        node = home.producers.get(name)
        sizes: Shape | None = None if value is None else tuple(value.reshape(-1))
        if sizes is None and node is not None and node.op in ("Shape", "Size"):
            sizes = shapes.shape(home, node.inputs[0])
            if sizes is None:
                return None
        if sizes is not None:
            found.update(*map(symbols, sizes))
        elif node is None:
            if name not in home.initializers or name in home.inputs:
                return None
        elif node.op in RANDOM or any(body.owner is node for body in home.bodies):
            return None
        else:
            waiting += [(home, read) for read in node.inputs if read]
    return frozenset(found)


def _difference(shapes: ShapeInference, node: Node) -> tuple[str, str] | None:
    """The two shapes of the first output in which the branches differ; None if all shapes are equal."""
    branches = [body for body in node.scope.bodies if body.owner is node]
    if len(branches) != 2:
        return None
    for names in zip(*(body.output_names for body in branches), strict=False):
        one, other = (shapes.shape(body, name) for body, name in zip(branches, names, strict=True))
        if one is not None and other is not None and one != other:
            return _text(one), _text(other)
    return None


def _text(shape: Shape) -> str:
    return f"[{', '.join(map(size_text, shape))}]"
