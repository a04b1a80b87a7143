"""Floats that must be exact integers: indices, positions and sizes that a node branches on.

Integers are exact in float16 up to 2,048.  Runs on short inputs do not show errors beyond.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum

import ml_dtypes
import numpy as np

from surgeon.errors import ModelFileError
from surgeon.file.tensors.decoding import dtype_of
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.dtype_traits import SELECTING, STEP_FUNCTIONS
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.precision.analyses.accumulation import is_running_sum
from surgeon.precision.analyses.dtype_graph import STORED, DtypeGraph, TensorKey, port_names
from surgeon.shapes.tensor_types import BOOL, INTEGERS_AND_BOOL

_ROUNDS = 4  # passes over all nodes, because outputs of bodies are known one pass later
_SMALL = frozenset((BOOL, *(number for number in INTEGERS_AND_BOOL if dtype_of(number).itemsize == 1)))


class CountKind(IntEnum):
    """What a tensor of floats holds: bits or bytes, counted integers, or results of arithmetic on these."""

    BITS = 1
    WHOLE = 2
    MADE = 3


class ExactIntegers:
    """The nodes between counts and the nodes that branch on them: a Cast back, a comparison, a rounding, a size.

    A value that a table holds at an index is not a count, nor is a result of a count and data.

    found: those nodes, each with the branching node at the end of its path.  most: up to here the new dtype holds all
    integers.
    """

    def __init__(self, dtype_graph: DtypeGraph) -> None:
        self._graph = dtype_graph
        self.most = 2 ** (ml_dtypes.finfo(dtype_of(dtype_graph.change.new)).nmant + 1)
        self._kinds: dict[TensorKey, CountKind] = {}
        self._makers: dict[TensorKey, tuple[Node, list[TensorKey]]] = {}
        self.found: dict[Node, Node] = {}
        for _ in range(_ROUNDS):
            known = dict(self._kinds)
            for scope in dtype_graph.scopes:
                self._enter(scope)
                for node in scope.nodes:
                    self._look_at(node)
            if known == self._kinds:
                break
        if self._kinds:
            for node in dtype_graph.nodes():
                ends = [place for place, key in self._read(node) if self._decides(node, place, key)]
                if ends:
                    self._follow(node)
                    counts = traits_of(node.op).operands.counts  # sizes are read in the old dtype anyway
                    if any(place not in counts for place in ends):
                        self.found[node] = node

    def _read(self, node: Node) -> list[tuple[int, TensorKey]]:
        """The inputs of a node that have the old dtype, with their indices."""
        wires = ((place, self._graph.wire(node.scope, name)) for place, name in enumerate(node.inputs))
        return [(place, (wire.home, wire.name)) for place, wire in wires if wire is not None]

    def _is_fixed(self, key: TensorKey) -> bool:
        return self._graph.tensors[key].maker == STORED or self._graph.index.constants.is_constant(*key)

    def _note(self, key: TensorKey, kind: CountKind | None, node: Node, sources: Sequence[TensorKey]) -> None:
        if kind is not None and key in self._graph.tensors:
            self._kinds[key] = max(kind, self._kinds.get(key, kind))
            self._makers[key] = node, list(sources)

    # From counts on

    def _look_at(self, node: Node) -> None:
        """Note the kind of a node's outputs."""
        called = self._graph.index.called(node)
        for place, key in self._read(node) if called is not None else ():
            if key in self._kinds and called is not None:
                self._note((called, port_names(called.proto.input)[place]), self._kinds[key], node, [key])
        if not any((node.scope, name) in self._graph.tensors for name in node.outputs):
            return
        facts, scope = traits_of(node.op), node.scope
        if facts.control.has_bodies:
            self._leave(node)
            return
        if called is not None:
            self._hand_on(node, port_names(called.proto.output), called)
            return
        read = self._read(node)
        kind = self._begins(node, read) or self._goes_on(node, read)
        for name in node.outputs:
            self._note((scope, name), kind, node, [key for _, key in read if key in self._kinds])

    def _begins(self, node: Node, read: Sequence[tuple[int, TensorKey]]) -> CountKind | None:
        """The kind of the outputs of a node at which a count begins."""
        facts, scope = traits_of(node.op), node.scope
        if facts.dtype.is_cast and not read and node.inputs:
            return self._whole(scope, node.inputs[0])
        if (
            facts.shape.expands
            and facts.operands.offsets
            and not facts.data.copies_elements
            and any(not self._is_fixed(key) for _, key in read)
        ):
            return CountKind.WHOLE  # a range
        return CountKind.MADE if is_running_sum(node) and read and not self._is_fixed(read[0][1]) else None

    def _whole(self, scope: Scope, name: str) -> CountKind | None:
        """The kind of a Cast of integers; None for constants and for sums of products."""
        home = scope.defining_scope(name)
        dtype = None if home is None else self._graph.dtype(home, name)
        if home is None or dtype not in INTEGERS_AND_BOOL or self._graph.index.constants.is_constant(scope, name):
            return None
        if dtype in _SMALL:
            return CountKind.BITS
        maker = home.producers.get(name)
        if maker is not None and traits_of(maker.op).products.kind:
            return None
        if home.function is None:
            values = self._graph.draft.shapes.value(home, name)
            if values is not None and all(isinstance(one, int) and abs(one) <= self.most for one in values.flat):
                return None
        return CountKind.WHOLE

    def _goes_on(self, node: Node, read: Sequence[tuple[int, TensorKey]]) -> CountKind | None:
        """The kind of a node's output where all inputs are counts and constants: elementwise, moved, or summed."""
        facts = traits_of(node.op)
        data = [
            key
            for place, key in read
            if not facts.data.carried or place in facts.data.carried or facts.shape.broadcasts
        ]
        kinds = [self._kinds[key] for key in data if key in self._kinds]
        if not kinds or any(key not in self._kinds and not self._is_fixed(key) for key in data):
            return None
        most = max(kinds)
        if facts.data.carried or facts.dtype.is_cast:
            return most
        if facts.numerics.reduces:
            return CountKind.MADE
        is_elementwise = (facts.shape.broadcasts or facts.shape.same_type_as_input) and not (
            facts.numerics.accumulates or facts.numerics.is_softmax or facts.dtype.returns_bool
        )
        if not is_elementwise:
            return None
        return most if most is CountKind.BITS else CountKind.MADE

    def _enter(self, body: Scope) -> None:
        """Note the inputs of a Loop's body: counts, or states that grow by the same amount in each turn."""
        owner = body.owner
        if owner is None or not traits_of(owner.op).control.trip_counts or body.function is not None:
            return
        for place, (given, made) in enumerate(zip(*self._carried(body), strict=False)):
            key = body, given
            first = self._graph.wire(owner.scope, owner.inputs[place + 2])
            sources = [(body, made)] if first is None else [(body, made), (first.home, first.name)]
            if self._is_counter(body, given, made) or (first and (first.home, first.name) in self._kinds):
                self._note(key, CountKind.MADE, owner, sources)

    def _carried(self, body: Scope) -> tuple[list[str], list[str]]:
        """The states of a turn, and their next values."""
        return port_names(body.proto.input)[2:], port_names(body.proto.output)[1:]

    def _is_counter(self, body: Scope, given: str, made: str) -> bool:
        node = self._behind_moves(body, made)
        if node is None or traits_of(node.op).algebra.family != "sum":
            return False
        others = [name for name in node.inputs if name != given]
        return len(others) < len(node.inputs) and all(body.defining_scope(name) is not body for name in others if name)

    def _behind_moves(self, scope: Scope, name: str) -> Node | None:
        node = scope.producers.get(name)
        while node is not None and traits_of(node.op).data.identity_when == "always":
            node = scope.producers.get(node.inputs[0])
        return node

    def _leave(self, node: Node) -> None:
        """Note the outputs of a node with bodies, from its bodies' outputs."""
        for body in node.scope.bodies:
            if body.owner is node:
                first = 1 if traits_of(node.op).control.trip_counts else 0
                self._hand_on(node, port_names(body.proto.output)[first:], body)

    def _hand_on(self, node: Node, made: Sequence[str], inside: Scope) -> None:
        for inner, outer in zip(made, node.outputs, strict=False):
            if (inside, inner) in self._kinds:
                self._note((node.scope, outer), self._kinds[inside, inner], node, [(inside, inner)])

    # Back from branching nodes

    def _decides(self, node: Node, place: int, key: TensorKey) -> bool:
        """Whether a node branches on a count that it reads at this place."""
        kind, facts = self._kinds.get(key, CountKind.BITS), traits_of(node.op)
        if kind is CountKind.BITS:
            return False
        if facts.dtype.is_cast:
            made = self._graph.dtype(node.scope, node.outputs[0])
            return made in INTEGERS_AND_BOOL and made != BOOL  # a cast to boolean only separates zero
        if facts.algebra.compares:
            return kind is CountKind.MADE or not self._is_small(node.scope, node.inputs[1 - place])
        return node.op in STEP_FUNCTIONS or node.op in SELECTING or place in facts.operands.counts

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

    def _follow(self, end: Node) -> None:
        """Find the nodes that lead to a branching node."""
        waiting = [key for _, key in self._read(end) if key in self._kinds]
        seen = set[TensorKey]()
        while waiting:
            key = waiting.pop()
            if key in seen or key not in self._makers:
                continue
            seen.add(key)
            node, sources = self._makers[key]
            self.found.setdefault(node, end)
            waiting += [source for source in sources if source in self._kinds]

    def reasons(self, named: str) -> Iterator[tuple[Node, str]]:
        """The nodes to keep, with the reason.  named: the new dtype."""
        for node, end in self.found.items():
            what = "decides by a count" if node is end else f"counts what {end.op} {end.label} decides by"
            yield node, f"it {what}, and {named} holds all whole numbers up to {self.most:,} alone"
