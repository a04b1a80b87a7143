"""Formulas that leave half precision just beyond observed ranges: logarithms near 0 and 1, and decomposed means."""

from collections.abc import Collection, Iterator

import numpy as np

from surgeon.connected_components import reachable
from surgeon.errors import ModelFileError
from surgeon.file.tensors.casting import cast_array, finite_limits, smallest
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.dtype_traits import CLIP_BOUNDS, EXPONENTIALS, LOGARITHMS, SIGMOIDS, UNBOUNDED_SUMS
from surgeon.ops.traits.trait_lookup import DATA_MOVEMENT, traits_of
from surgeon.precision.analyses.dtype_graph import DtypeGraph
from surgeon.shapes.algebra.size_expressions import symbols

_MAX_NODES = 16  # nodes between a logarithm and the node that makes its input small or large
_FEW = 64  # elements of a constant that is read


class UnstableFormulas:
    """The nodes of such formulas, each with the reason.

    dims: dynamic dims whose size the user gives; they are not larger elsewhere.
    """

    def __init__(self, dtype_graph: DtypeGraph, dims: Collection[str]) -> None:
        self._graph, self._dims = dtype_graph, frozenset(dims)
        self._high, self._named = finite_limits(dtype_graph.change.new)[1], dtype_graph.change.names[1]
        self.found: dict[Node, str] = {}
        for node in dtype_graph.nodes():
            if node.op in LOGARITHMS:
                self._logarithm(node)
            elif node.op in UNBOUNDED_SUMS:
                self._mean(node)
            if any(self._is_nearly_one(node.scope, name) for name in node.inputs):
                self._complement(node)

    def _keep(self, nodes: Collection[Node], reason: str) -> None:
        for node in nodes:
            self.found.setdefault(node, reason)

    # Logarithms

    def _logarithm(self, end: Node) -> None:
        """Keep a logarithm of a softmax, a Sigmoid, an Exp or 1 - p, and the nodes between."""
        readers: dict[Node, list[Node]] = {}
        waiting, seen = [end], {end}
        ends: list[Node] = []
        while waiting and len(seen) < _MAX_NODES:
            node = waiting.pop(0)
            for name in self._data(node):
                maker = node.scope.producers.get(name)
                if maker is None or self._is_constant(node.scope, name):
                    continue
                readers.setdefault(maker, []).append(node)
                if self._is_steep(maker):
                    ends.append(maker)
                if maker not in seen and self._passes(maker):
                    seen.add(maker)
                    waiting.append(maker)
        for first in dict.fromkeys(ends):
            self._keep(reachable([first], lambda node: readers.get(node, ())), self._reason(first))

    def _data(self, node: Node) -> Iterator[str]:
        """The inputs that a node's output depends on, without bounds."""
        facts = traits_of(node.op)
        places = facts.data.carried if facts.data.carried and not facts.shape.broadcasts else range(len(node.inputs))
        yield from (name for place, name in enumerate(node.inputs) if name and place in places)

    def _passes(self, node: Node) -> bool:
        facts = traits_of(node.op)
        return bool(facts.data.carried or facts.algebra.family or facts.numerics.reduces == "sum")

    def _is_steep(self, node: Node) -> bool:
        if node.op in EXPONENTIALS:
            return not self._is_bounded(node.scope, node.inputs[0])
        return traits_of(node.op).numerics.is_softmax or node.op in SIGMOIDS or self._is_complement(node)

    def _reason(self, first: Node) -> str:
        if first.op in EXPONENTIALS:
            return f"a logarithm follows {first.op}, which overflows above {self._high:,.6g} in {self._named}"
        what = "1 - p" if self._is_complement(first) else first.op
        tiny = smallest(self._graph.change.new)
        return f"a logarithm follows {what}; {self._named} loses digits below {tiny:.3g}"

    def _is_bounded(self, scope: Scope, name: str) -> bool:
        """Whether the input of an Exp is at most 0: a difference from the maximum, or a negated magnitude."""
        node = scope.producers.get(name)
        while node is not None and node.op in DATA_MOVEMENT:
            node = scope.producers.get(node.inputs[0])
        if node is None or traits_of(node.op).algebra.family != "sum":
            return False
        taken = scope.producers.get(node.inputs[-1])
        if taken is None or traits_of(node.op).algebra.signs[-1] != -1:
            return False
        facts = traits_of(taken.op)
        return (
            facts.numerics.reduces == "extremum"
            if len(node.inputs) > 1
            else facts.shape.same_type_as_input and facts.numerics.exact and not facts.data.carried
        )

    def _is_constant(self, scope: Scope, name: str) -> bool:
        return self._graph.index.constants.is_constant(scope, name)

    # Numbers close to one

    def _is_complement(self, node: Node) -> bool:
        """Whether a node computes 1 - p."""
        facts = traits_of(node.op)
        is_difference = facts.algebra.family == "sum" and facts.algebra.signs == (1, -1)
        if not is_difference or self._is_constant(node.scope, node.inputs[1]):
            return False
        values = self._small(node.scope, node.inputs[0])
        return values is not None and bool(np.all(values == 1))

    def _is_nearly_one(self, scope: Scope, name: str) -> bool:
        """Whether a tensor is a constant that becomes 1 in the new dtype, and is not 1."""
        wire = self._graph.wire(scope, name) if name else None
        values = None if wire is None else self._small(scope, name)
        if values is None or not values.size:
            return False
        made = cast_array(values, self._graph.change.new).astype(np.float64)
        return bool(np.any((made == 1) & (values != 1)))

    def _small(self, scope: Scope, name: str) -> np.ndarray | None:
        """The values of a small float constant."""
        constants = self._graph.index.constants
        found = constants.get(scope, name) if constants.is_constant(scope, name) else None
        try:
            array = None if found is None else found.array
        except ModelFileError:  # reported when it is written
            return None
        if array is None or array.size > _FEW or self._graph.wire(scope, name) is None:
            return None
        return np.asarray(array, np.float64)

    def _complement(self, node: Node) -> None:
        """Keep a bound or a factor just below 1 where 1 - p follows."""
        facts = traits_of(node.op)
        if node.op not in CLIP_BOUNDS and facts.algebra.family != "product":
            return
        for path in self._onwards(node):
            last = path[-1]
            if self._is_complement(last):
                self._keep(path, f"1 - p follows a number just below 1, which {self._named} rounds to 1")

    def _onwards(self, node: Node) -> Iterator[list[Node]]:
        """The consumers of a node's output, also after nodes that move or bound it, each with the path to it."""
        waiting, seen = [[node]], {node}
        while waiting:
            path = waiting.pop()
            for name in path[-1].outputs:
                for reader in path[-1].scope.readers(name) if name else ():
                    if reader in seen:
                        continue
                    seen.add(reader)
                    yield [*path, reader]
                    if len(path) < _MAX_NODES and traits_of(reader.op).data.carried:
                        waiting.append([*path, reader])

    # Decomposed means

    def _mean(self, node: Node) -> None:
        """Keep a sum over a dynamic number of rows, and the division by that number."""
        free = self.dynamic_sizes(node)
        for path in self._onwards(node) if free else ():
            last, before = path[-1], path[-2]
            if 1 in traits_of(last.op).algebra.divisors and last.inputs[0] in before.outputs:
                reason = f"part of a written-out mean over {', '.join(free)}, whose sum grows with it"
                self._keep(path, f"{reason}; the largest {self._named} is {self._high:,.6g}")

    def dynamic_sizes(self, node: Node) -> list[str]:
        """The dynamic sizes of the axes that a node reduces."""
        if node.scope.function is not None or not node.inputs:
            return []
        shapes = self._graph.draft.shapes
        given, made = (shapes.shape(node.scope, name) for name in (node.inputs[0], node.outputs[0]))
        if given is None or made is None:
            return []
        gone = [size for size in given if size not in made and not isinstance(size, int)]
        return [str(size) for size in gone if not symbols(size) <= self._dims]
