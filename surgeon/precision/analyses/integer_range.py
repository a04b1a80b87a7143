"""How large integers can be that int32 is to hold: those that pick from tables, count and tell sizes stay small.

What runs show of made inputs tells nothing of a clock in milliseconds, nor of a hash.  So the bounds are of the graph.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper

from surgeon.analysis.def_use import DefUseGraph
from surgeon.analysis.input_roles import infer_role, named_role
from surgeon.errors import ModelFileError
from surgeon.file.tensors.casting import finite_limits
from surgeon.file.tensors.decoding import dtype_of
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.dtype_traits import EXPONENTIALS
from surgeon.ops.traits.op_traits import OpTraits
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.precision.analyses.dtype_graph import DtypeGraph, TensorKey
from surgeon.precision.analyses.mask_sentinels import SMALL
from surgeon.precision.kept_nodes.selectors import NodeAddress, node_address
from surgeon.shapes.tensor_types import INTEGERS_AND_BOOL

_SIZE = 2.0**16
"""Sizes, and what tells them, are at most so large; elements are no more than int32 counts."""
_ROWS = 2.0**20  # of a table whose size is free
_TURNS = 2.0**14  # of a loop
_BITS = 8.0  # of a mask
_TAME = 1024.0  # what a function of floats that grows no faster than they makes of small ones
_FAR = float("inf")
_TELLING = frozenset(("count", "length", "target", "trip", "zero"))
_ROUNDS = 3  # of looking at all nodes, as what a body hands on is known a round later


class IntegerRange:
    """The nodes that read or make integers which may be beyond the new dtype, each with the kind of reason and that.

    converts: whether the inputs of the model are of the new dtype too.
    """

    def __init__(self, wiring: DtypeGraph, *, converts: bool) -> None:
        self._wiring = wiring
        skeleton: ModelProto = wiring.draft.skeleton
        self._most, self._named = finite_limits(wiring.change.new)[1], wiring.change.names[1]
        self._bounds: dict[TensorKey, float] = {}
        self._calls: dict[TensorKey, float] = {}
        self._fixed: dict[TensorKey, float | None] = {}
        self._sizes = set[TensorKey]()  # what tells how many elements there are
        self._roles = DefUseGraph(skeleton)
        self.found: dict[NodeAddress, tuple[str, str]] = {}
        for value in skeleton.graph.input:
            self._bounds[wiring.index.main, value.name] = self._of_input(value.name, converts=converts)
        for _ in range(_ROUNDS):
            for scope in wiring.scopes:
                self._enter(scope)
                for node in scope.nodes:
                    self._look_at(node)
        for node in wiring.nodes():
            self._keep(node)

    def _keep(self, node: Node) -> None:
        ports = self._wiring.ports[node]
        if ports.keep_reason or not (ports.following_inputs or ports.following_outputs):
            return
        picks = {lookup.indices for lookup in traits_of(node.op).indexing.lookups}
        names = [
            node.inputs[place] for place in ports.following_inputs if place not in picks
        ]  # an index is as large as its table
        for name in (*names, *(node.outputs[place] for place in ports.following_outputs)):
            bound = self._bound(node.scope, name)
            if bound > self._most and self._of_constant(node.scope, name) is None:
                told = f"{name!r} is bound by nothing" if bound == _FAR else f"{name!r} may reach {bound:,.3g}"
                self.found[node_address(node)] = "range", f"{told}, and {self._named} ends at {self._most:,.0f}"
                return

    def _of_input(self, name: str, *, converts: bool) -> float:
        role = infer_role(self._roles, name)
        named = named_role(name)
        if named == "mask" or "mask" in role.flags:
            return _BITS
        if named is not None or not role.flags.isdisjoint(_TELLING):
            return _SIZE
        if "lookup" in role.flags:
            tables = [limit.table for limit in role.limits]
            return max((float(table) if isinstance(table, int) else _ROWS for table in tables), default=_ROWS)
        return self._most if converts else _FAR

    def _bound(self, scope: Scope, name: str) -> float:
        """The largest magnitude that a tensor can hold, as far as that is known."""
        home = scope.defining_scope(name)
        if home is None:
            return _FAR
        key = home, name
        if key not in self._bounds:
            found = self._of_constant(home, name)
            if found is None:
                return self._of_dtype(key)
            self._bounds[key] = found
        return self._bounds[key]

    def _of_dtype(self, key: TensorKey) -> float:
        dtype = self._wiring.dtype(*key)
        if dtype == TensorProto.BOOL:
            return 1.0
        if dtype not in INTEGERS_AND_BOOL or dtype is None or dtype in (self._wiring.change.old, TensorProto.UINT64):
            return _FAR
        return float(np.iinfo(dtype_of(dtype)).max)

    def _of_constant(self, scope: Scope, name: str) -> float | None:
        key = scope, name
        if key not in self._fixed:
            self._fixed[key] = self._largest(scope, name)
        return self._fixed[key]

    def _largest(self, scope: Scope, name: str) -> float | None:
        """The largest number of a constant; None of what is none, and of weights, which are not read for this."""
        tensor = scope.initializers.get(name)
        if tensor is not None and tensor.data_type != self._wiring.change.old and prod(tensor.dims) > SMALL:
            return None
        constants = self._wiring.index.constants
        try:
            array = constants.array(scope, name) if constants.is_constant(scope, name) else None
        except ModelFileError:  # whoever has to write it will tell
            return None
        if array is None or array.dtype.kind not in "iubf":
            return None
        if array.dtype.kind == "f":
            return float(np.abs(array, dtype=np.float64).max(initial=0.0))
        numbers = np.abs(array.astype(np.float64))
        end = float(np.iinfo(np.int64).max)  # which says "to the end"
        most = float(numbers.max(initial=0.0, where=numbers < end))
        return most if array.size <= SMALL else min(most, self._most)  # others are looked at where they are written

    def _look_at(self, node: Node) -> None:
        facts, called = traits_of(node.op), self._wiring.index.called(node)
        if facts.control.has_bodies:
            self._leave(node)
            return
        if called is not None:
            self._call(node, called)
            return
        for place, name in enumerate(node.outputs):
            key = node.scope, name
            if not name or self._of_constant(*key) is not None:
                continue
            is_index = facts.dtype.returns_indices or (facts.dtype.later_outputs_are_indices and place > 0)
            if facts.shape.returns_sizes or is_index:
                self._bounds[key] = _SIZE if facts.shape.returns_sizes else _ROWS
                self._sizes.add(key)
                continue
            data = self._data(node, facts)
            inner = [(self._bound(node.scope, one), self._is_size(node.scope, one)) for one in data]
            bound = self._made(node, facts, [one for one, _ in inner])
            if all(is_size for _, is_size in inner) and any((node.scope, one) in self._sizes for one in data):
                bound = min(bound, self._most)
                self._sizes.add(key)
            self._bounds[key] = min(bound, self._of_dtype(key))

    def _data(self, node: Node, facts: OpTraits) -> list[str]:
        """The inputs that numbers come from."""
        if facts.dtype.is_cast:
            return [node.inputs[0]]
        places = facts.data.carried if facts.data.carried and not facts.control.selectors else range(len(node.inputs))
        if facts.control.selectors:
            places = [place for place in range(len(node.inputs)) if place not in facts.control.selectors]
        if facts.shape.axes is not None:
            places = [place for place in range(len(node.inputs)) if place in places and place != facts.shape.axes.slot]
        return [name for place, name in enumerate(node.inputs) if name and place in places]

    def _is_size(self, scope: Scope, name: str) -> bool:
        """Whether a tensor tells sizes, or is a constant, as axes and widths beside sizes are."""
        home = scope.defining_scope(name)
        if home is None or (home, name) in self._sizes:
            return home is not None
        bound = self._of_constant(home, name)
        return bound is not None and bound <= _SIZE

    def _made(self, node: Node, facts: OpTraits, given: Sequence[float]) -> float:
        """What a node makes at most of what it is given."""
        value = node.attribute("value") if facts.shape.expands and not facts.data.carried else None
        if value is not None:
            return float(np.abs(numpy_helper.to_array(value.t).astype(np.float64)).max(initial=0.0))
        if not given:
            return _FAR
        if facts.algebra.divisors and not facts.algebra.family:  # what is left of a division
            return min(given)
        if facts.algebra.family == "product":
            return self._quotient(node, given[0]) if facts.algebra.divisors else float(np.prod(given))
        if facts.algebra.family == "sum":
            return sum(given)
        if facts.shape.expands and facts.operands.offsets and not facts.data.carried:  # a range
            return max(given[:2])
        if facts.numerics.accumulates:
            return max(given) * _SIZE
        if facts.data.carried or facts.dtype.is_cast:
            return max(self._bounding(node, given))
        if facts.dtype.later_outputs_are_indices or (facts.shape.same_type_as_input and node.op not in EXPONENTIALS):
            return max(given[0], _TAME)
        return 1.0 if facts.dtype.returns_bool else _FAR

    def _quotient(self, node: Node, given: float) -> float:
        """A quotient of integers is no larger than what is divided; one of floats is where the divisor is small."""
        if self._wiring.dtype(node.scope, node.outputs[0]) in INTEGERS_AND_BOOL:
            return given
        constants, name = self._wiring.index.constants, node.inputs[-1]
        array = constants.array(node.scope, name) if constants.is_constant(node.scope, name) else None
        least = 0.0 if array is None or not array.size else float(np.abs(array.astype(np.float64)).min())
        return given / least if least else _FAR

    def _bounding(self, node: Node, given: Sequence[float]) -> Sequence[float]:
        """What is given, or where both ends are fixed the bounds of what is between."""
        if (
            len(node.inputs) == 3
            and all(node.inputs)
            and traits_of(node.op).numerics.error_is_input_scaled
            and not traits_of(node.op).shape.broadcasts
        ):
            ends = [self._bound(node.scope, name) for name in node.inputs[1:]]
            return [min(given[0], max(ends))]
        return given

    # Bodies

    def _enter(self, body: Scope) -> None:
        """What a Loop gives its body: the number of the turn, and what it carries."""
        owner = body.owner
        if owner is None or not traits_of(owner.op).control.trip_counts:
            return
        given, made = _names(body.proto.input), _names(body.proto.output)
        if given:
            self._bounds[body, given[0]] = _TURNS
            self._sizes.add((body, given[0]))
        for place, (inner, after) in enumerate(zip(given[2:], made[1:], strict=False)):
            first = self._bound(owner.scope, owner.inputs[place + 2])
            self._bounds[body, inner] = first + self._step(body, inner, after) * _TURNS

    def _step(self, body: Scope, inner: str, after: str) -> float:
        """By how much what is carried grows in a turn."""
        node = body.producers.get(after)
        while node is not None and traits_of(node.op).data.identity_when == "always":
            after = node.inputs[0]
            node = body.producers.get(after)
        if after == inner or body.defining_scope(after) is not body:
            return 0.0 if after == inner else self._bound(body, after)
        if node is None or traits_of(node.op).algebra.family != "sum" or inner not in node.inputs:
            return _FAR
        return sum(self._bound(body, name) for name in node.inputs if name != inner)

    def _leave(self, node: Node) -> None:
        """What a node hands on of what its bodies make."""
        first = 1 if traits_of(node.op).control.trip_counts else 0  # a Loop's body tells whether to go on
        bodies = [(body, _names(body.proto.output)[first:]) for body in node.scope.bodies if body.owner is node]
        for place, name in enumerate(node.outputs):
            made = [self._bound(body, names[place]) for body, names in bodies if place < len(names)]
            if name and made:
                self._bounds[node.scope, name] = max(made)

    def _call(self, node: Node, function: Scope) -> None:
        """What a call gives its function, of all calls the largest, and what it hands on of that."""
        for inner, outer in zip(_names(function.proto.input), node.inputs, strict=False):
            if outer and self._wiring.dtype(node.scope, outer) is not None:
                bound = max(self._calls.get((function, inner), 0.0), self._bound(node.scope, outer))
                self._calls[function, inner] = self._bounds[function, inner] = bound
        for inner, outer in zip(_names(function.proto.output), node.outputs, strict=False):
            self._bounds[node.scope, outer] = self._bound(function, inner)


def _names(values: Any) -> list[str]:
    """The names of the inputs or outputs of a graph or a function."""
    return [value if isinstance(value, str) else value.name for value in values]
