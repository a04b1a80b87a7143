"""Sums of any number of terms that the new dtype adds up one after the other: running sums, and states of loops.

A reduction adds up in float32 inside.  These nodes round each partial sum instead, and float16 cannot add a term to a
sum of 2,048 such terms.  Runs do not show that: generated inputs have few turns and short axes.
"""

from collections.abc import Collection, Iterator, Sequence

import ml_dtypes

from surgeon.file.tensors.decoding import dtype_of
from surgeon.ir.edges import states
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.precision.analyses.dtype_graph import DtypeGraph
from surgeon.shapes.algebra.size_expressions import symbols
from surgeon.shapes.tensor_types import HALVES

_MAX_NODES = 16  # nodes between a state and its next value


class Accumulation:
    """Nodes with such sums, each with the reason.

    dims: dynamic dims whose size the user gives; they are not larger elsewhere.
    """

    def __init__(self, dtype_graph: DtypeGraph, dims: Collection[str]) -> None:
        self._graph, self._dims = dtype_graph, frozenset(dims)
        self._most = 2 ** (ml_dtypes.finfo(dtype_of(dtype_graph.change.new)).nmant + 1)  # equal terms
        self._ends = f"{dtype_graph.change.names[1]} can add at most {self._most:,} equal terms"
        self.found: dict[Node, str] = {}
        if dtype_graph.change.new not in HALVES:
            return
        for node in dtype_graph.nodes():
            if is_running_sum(node):
                self._running(node)
        for body in dtype_graph.scopes:
            if body.owner is not None:
                self._states(body, body.owner)

    def _running(self, node: Node) -> None:
        axes = traits_of(node.op).shape.axes
        assert axes is not None
        axis = self._graph.index.constants.scalar(node.scope, node.inputs[axes.slot])
        many = self._many(node.scope, node.inputs[0], None if axis is None else int(axis[0]))
        if many:
            self.found[node] = f"a running sum over {many}; {self._ends}"

    def _many(self, scope: Scope, name: str, axis: int | None) -> str:
        """The number of elements along an axis, as text; empty if it is small."""
        shape = None if scope.function is not None else self._graph.draft.shapes.shape(scope, name)
        if shape is None or axis is None or not -len(shape) <= axis < len(shape):
            return "any number"
        size = shape[axis]
        if isinstance(size, int):
            return f"{size:,}" if size > self._most else ""
        return "" if symbols(size) <= self._dims else str(size)

    # States of loops

    def _states(self, body: Scope, owner: Node) -> None:
        """Keep the nodes that add to states of a body, if its number of iterations is not bounded."""
        again = states(body)
        if traits_of(owner.op).control.trip_counts:
            is_fixed = self._graph.index.constants.is_constant(owner.scope, owner.inputs[0])
            many = "" if is_fixed else "any number of iterations"
        elif again:
            axes = owner.attribute("scan_input_axes")
            many = self._many(owner.scope, owner.inputs[len(again)], axes.ints[0] if axes is not None else 0)
        for output, given in again if again and many else ():
            state, end = body.input_names[given], body.output_names[output]
            if self._graph.wire(body, state) is None:
                continue
            added = list(self._added(body, end, state))
            for node in (*added, *([owner] if added else [])):
                self.found.setdefault(node, f"{state!r} accumulates over {many}; {self._ends}")

    def _added(self, body: Scope, end: str, state: str) -> Iterator[Node]:
        """The nodes that compute the next state from the state, with a sum among them."""
        waiting: list[tuple[str, Sequence[Node]]] = [(end, ())]
        while waiting:
            name, path = waiting.pop()
            if name == state:
                if any(traits_of(node.op).algebra.family == "sum" for node in path):
                    yield from path
                continue
            node = body.producers.get(name)
            if node is None or len(path) > _MAX_NODES:
                continue
            facts = traits_of(node.op)
            places = range(len(node.inputs)) if facts.algebra.family == "sum" else facts.data.carried
            waiting += [(text, (*path, node)) for at, text in enumerate(node.inputs) if text and at in places]


def is_running_sum(node: Node) -> bool:
    """Whether a node computes a running sum."""
    facts = traits_of(node.op)
    return facts.numerics.accumulates and facts.shape.same_type_as_input and facts.shape.axes is not None
