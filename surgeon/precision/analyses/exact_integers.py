"""Floats that must be exact integers: indices, positions and sizes that a node branches on.

Integers are exact in float16 up to 2,048.  Runs on short inputs do not show errors beyond.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum

import ml_dtypes
import numpy as np

from surgeon.analysis.dataflow import Dataflow
from surgeon.errors import ModelFileError
from surgeon.file.tensors.decoding import dtype_of
from surgeon.ir.edges import Edges, Tensor
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.dtype_traits import SELECTING, STEP_FUNCTIONS
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.precision.analyses.accumulation import is_running_sum
from surgeon.precision.analyses.dtype_graph import STORED, DtypeGraph
from surgeon.shapes.tensor_types import BOOL, INTEGERS_AND_BOOL

_SMALL = frozenset((BOOL, *(number for number in INTEGERS_AND_BOOL if dtype_of(number).itemsize == 1)))


class CountKind(IntEnum):
    """The content of a tensor of floats: data, bits or bytes, counted integers, or results of arithmetic on these."""

    DATA = 0
    BITS = 1
    WHOLE = 2
    MADE = 3


class ExactIntegers(Dataflow[CountKind]):
    """The nodes between counts and the nodes that branch on them: a Cast back, a comparison, a rounding, a size.

    A value that a table holds at an index is not a count, nor is a result of a count and data.

    found: those nodes, each with the branching node at the end of its path.  most: up to here the new dtype holds all
    integers.
    """

    def __init__(self, dtype_graph: DtypeGraph) -> None:
        super().__init__(CountKind.DATA)
        self._graph, self._edges = dtype_graph, Edges(dtype_graph.index)
        self.most = 2 ** (ml_dtypes.finfo(dtype_of(dtype_graph.change.new)).nmant + 1)
        self.found: dict[Node, Node] = {}
        for node in dtype_graph.nodes():
            read = self._read(node)
            ends = [place for place, tensor in read if self._decides(node, place, tensor)]
            if not ends:
                continue
            for tensor in self.path((tensor for _, tensor in read), bool):
                for maker in self._edges.makers(tensor):
                    self.found.setdefault(maker, node)
            counts = traits_of(node.op).operands.counts  # sizes are read in the old dtype anyway
            if any(place not in counts for place in ends):
                self.found[node] = node

    def _read(self, node: Node) -> list[tuple[int, Tensor]]:
        """The inputs of a node that have the old dtype, with their indices."""
        wires = ((place, self._graph.wire(node.scope, name)) for place, name in enumerate(node.inputs))
        return [(place, Tensor(wire.home, wire.name)) for place, wire in wires if wire is not None]

    def _is_fixed(self, tensor: Tensor) -> bool:
        is_stored = self._graph.tensors[tensor.scope, tensor.name].maker == STORED
        return is_stored or self._graph.index.constants.is_constant(tensor.scope, tensor.name)

    # From counts on

    def join(self, one: CountKind, other: CountKind) -> CountKind:
        return max(one, other)

    def equation(self, tensor: Tensor, fact: Callable[[Tensor], CountKind]) -> CountKind:
        scope, name, _ = tensor
        if (scope, name) not in self._graph.tensors:
            return CountKind.DATA
        node, origins = scope.producers.get(name), list(self._edges.origins(tensor))
        kinds = [fact(origin) for origin in origins]
        if node is None and scope.owner is not None and len(origins) == 2:  # a state: its first and its next value
            is_counted = bool(kinds[0]) or self._is_counter(scope, name, origins[1].name)
            return CountKind.MADE if is_counted else CountKind.DATA
        if origins or node is None:
            return max(kinds, default=CountKind.DATA)
        read = self._read(node)
        known = {given: fact(given) for _, given in read}
        return self._begins(node, read) or self._goes_on(node, read, known)

    def _begins(self, node: Node, read: Sequence[tuple[int, Tensor]]) -> CountKind:
        """The kind of the outputs of a node at which a count begins."""
        facts, scope = traits_of(node.op), node.scope
        if facts.dtype.is_cast and not read and node.inputs:
            return self._whole(scope, node.inputs[0])
        if (
            facts.shape.expands
            and facts.operands.offsets
            and not facts.data.copies_elements
            and any(not self._is_fixed(tensor) for _, tensor in read)
        ):
            return CountKind.WHOLE  # a range
        is_counted = is_running_sum(node) and read and not self._is_fixed(read[0][1])
        return CountKind.MADE if is_counted else CountKind.DATA

    def _whole(self, scope: Scope, name: str) -> CountKind:
        """The kind of a Cast of integers, unless these are constants, small, or sums of products."""
        home = scope.defining_scope(name)
        dtype = None if home is None else self._graph.dtype(home, name)
        if home is None or dtype not in INTEGERS_AND_BOOL or self._graph.index.constants.is_constant(scope, name):
            return CountKind.DATA
        if dtype in _SMALL:
            return CountKind.BITS
        maker = home.producers.get(name)
        if maker is not None and traits_of(maker.op).products.kind:
            return CountKind.DATA
        if home.function is None:
            values = self._graph.draft.shapes.value(home, name)
            if values is not None and all(isinstance(one, int) and abs(one) <= self.most for one in values.flat):
                return CountKind.DATA
        return CountKind.WHOLE

    def _goes_on(self, node: Node, read: Sequence[tuple[int, Tensor]], known: Mapping[Tensor, CountKind]) -> CountKind:
        """The kind of a node's output if all inputs are counts and constants: elementwise, moved, or summed."""
        facts = traits_of(node.op)
        data = [
            tensor
            for place, tensor in read
            if not facts.data.carried or place in facts.data.carried or facts.shape.broadcasts
        ]
        most = max((known[tensor] for tensor in data), default=CountKind.DATA)
        if not most or any(not known[tensor] and not self._is_fixed(tensor) for tensor in data):
            return CountKind.DATA
        if facts.data.carried or facts.dtype.is_cast:
            return most
        if facts.numerics.reduces:
            return CountKind.MADE
        is_elementwise = (facts.shape.broadcasts or facts.shape.same_type_as_input) and not (
            facts.numerics.accumulates or facts.numerics.is_softmax or facts.dtype.returns_bool
        )
        if not is_elementwise:
            return CountKind.DATA
        return most if most is CountKind.BITS else CountKind.MADE

    def _is_counter(self, body: Scope, given: str, made: str) -> bool:
        """Whether a state grows by the same amount in each iteration."""
        node = body.producers.get(made)
        while node is not None and traits_of(node.op).data.identity_when == "always":
            node = body.producers.get(node.inputs[0])
        if node is None or traits_of(node.op).algebra.family != "sum":
            return False
        others = [name for name in node.inputs if name != given]
        return len(others) < len(node.inputs) and all(body.defining_scope(name) is not body for name in others if name)

    # Back from branching nodes

    def _decides(self, node: Node, place: int, tensor: Tensor) -> bool:
        """Whether a node branches on a count that it reads at this place."""
        facts = traits_of(node.op)
        if facts.dtype.is_cast:
            made = self._graph.dtype(node.scope, node.outputs[0])
            if made not in INTEGERS_AND_BOOL or made == BOOL:  # a cast to boolean only separates zero
                return False
        elif facts.algebra.compares:
            if self[tensor] is CountKind.WHOLE and self._is_small(node.scope, node.inputs[1 - place]):
                return False
        elif node.op not in STEP_FUNCTIONS and node.op not in SELECTING and place not in facts.operands.counts:
            return False
        return self[tensor] > CountKind.BITS

    def _is_small(self, scope: Scope, name: str) -> bool:
        """Whether a constant holds only integers that the new dtype separates from their neighbours."""
        known = self._graph.index.constants
        found = known.get(scope, name) if known.is_constant(scope, name) else None
        if found is None:
            return False
        try:
            numbers = np.asarray(found.array, np.float64)
        except ModelFileError:  # reported when it is written
            return False
        return bool(np.all((np.abs(numbers) < self.most) & (numbers == np.rint(numbers))))

    def reasons(self, named: str) -> Iterator[tuple[Node, str]]:
        """The nodes to keep, with the reason.  named: the new dtype."""
        for node, end in self.found.items():
            what = "it depends on a count" if node is end else f"it computes a count for {end.op} {end.label}"
            yield node, f"{what}; {named} represents integers only up to {self.most:,}"
