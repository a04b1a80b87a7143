"""Finds the size of the trace inside a graph whose inputs declare a dynamic dim.

Exports with `dynamic_axes` contain it if the model reads a size as a Python number.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from surgeon.edits.dynamic_dims.op_constraints import check
from surgeon.edits.dynamic_dims.planned_inputs import CannotBeDynamic
from surgeon.edits.dynamic_dims.propagation import SizePropagation
from surgeon.edits.dynamic_dims.solver import Interpretations
from surgeon.ir.index import Index
from surgeon.ir.scope import Node
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.shapes.algebra.size_expressions import Size, exact_quotient, symbol

NO_SIZE = 2_147_483_647  # a prime that no graph has as a size


@dataclass(frozen=True, slots=True)
class InsideSize:
    """A size that a graph contains instead of a dynamic dim."""

    size: int
    """The size."""
    node: Node | None
    """A node that has it; None if an output has it."""


def size_inside(index: Index, name: str) -> InsideSize | None:
    """The size that a graph contains although its inputs declare the dynamic dim `name`; None if there is none.

    Nothing runs.  A size is found if the graph fits only with it, and can be changed to fit the dynamic dim.
    """
    for found in _contradictions(index, name):
        if any(item.walk.given for item in Interpretations(index, {name: found.size}).first()):
            return found
    return None


def hidden_sizes(index: Index) -> list[int]:
    """Possible sizes of the trace that no node contradicts: 1, and the trip counts of Loops."""
    nodes = [node for scope in index.scopes for node in scope.nodes if traits_of(node.op).control.trip_counts]
    trips = [
        (node.scope, node.inputs[slot])
        for node in nodes
        for slot in traits_of(node.op).control.trip_counts
        if node.inputs[slot]
    ]
    found = [index.constants.array(scope, name) for scope, name in trips]
    return list(dict.fromkeys([*(int(one.flat[0]) for one in found if one is not None and one.size == 1), 1]))


def _contradictions(index: Index, name: str) -> Iterator[InsideSize]:
    """Fixed sizes that a graph has instead of the dynamic dim of its inputs."""
    walk = SizePropagation(index, {name: NO_SIZE}, {})
    try:
        walk.run(check)
    except CannotBeDynamic as stuck:
        if stuck.number is not None and stuck.symbolic is not None:
            solved = _solved(stuck.number, stuck.symbolic, name)
            if solved is not None:
                yield InsideSize(solved, stuck.node)
        return
    for value in index.main.proto.output:
        sizes = walk.shapes.shape(index.main, value.name) or ()
        for dim, size in zip(value.type.tensor_type.shape.dim, sizes, strict=False):
            if dim.dim_param == name and isinstance(size, int):
                yield InsideSize(size, None)


def _solved(number: Size, symbolic: Size, name: str) -> int | None:
    """The value of the dim at which `symbolic`, a multiple of it, equals `number`."""
    factor = exact_quotient(symbolic, symbol(name))
    solved = None if factor is None else exact_quotient(number, factor)
    return solved if isinstance(solved, int) and solved > 0 else None
