"""Bounds of int64 tensors that int32 is to hold: indices, counts and sizes stay small.

Runs on generated inputs do not show the values of a clock in milliseconds, or of a hash.  So the bounds come from the
graph.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from onnx import TensorProto, numpy_helper

from surgeon.analysis.input_roles import InputRoles, named_role
from surgeon.errors import ModelFileError
from surgeon.file.tensors.casting import finite_limits
from surgeon.file.tensors.decoding import dtype_of
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.dtype_traits import EXPONENTIALS
from surgeon.ops.traits.op_traits import OpTraits
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.precision.analyses.dtype_graph import DtypeGraph, TensorKey, port_names
from surgeon.precision.analyses.mask_sentinels import SMALL
from surgeon.precision.kept_nodes.selectors import NodeAddress, node_address
from surgeon.shapes.tensor_types import INTEGERS_AND_BOOL

_SIZE = 2.0**16
"""Bound of sizes, and of tensors that hold sizes; a tensor has at most as many elements as int32 counts."""
_ROWS = 2.0**20  # rows of a table of dynamic size
_TURNS = 2.0**14  # trips of a loop
_BITS = 8.0  # values of a mask
_TAME = 1024.0  # bound of a float function that grows at most linearly, for small inputs
_FAR = float("inf")
_OF_SIZES = frozenset(("count", "length", "target", "trip", "zero"))
_ROUNDS = 3  # passes over all nodes, because outputs of bodies are known one pass later


class IntegerRange:
    """The nodes with integers that may be beyond the new dtype, each with the kind of its reason and the reason.

    converts: whether the inputs of the model get the new dtype too.
    """

    def __init__(self, dtype_graph: DtypeGraph, *, converts: bool) -> None:
        self._graph = dtype_graph
        self._most, self._named = finite_limits(dtype_graph.change.new)[1], dtype_graph.change.names[1]
        self._bounds: dict[TensorKey, float] = {}
        self._calls: dict[TensorKey, float] = {}
        self._fixed: dict[TensorKey, float | None] = {}
        self._sizes = set[TensorKey]()  # tensors that hold sizes
        self._roles = InputRoles(dtype_graph.index)
        self.found: dict[NodeAddress, tuple[str, str]] = {}
        for name in dtype_graph.index.main.input_names:
            self._bounds[dtype_graph.index.main, name] = self._of_input(name, converts=converts)
        for _ in range(_ROUNDS):
            for scope in dtype_graph.scopes:
                self._enter(scope)
                for node in scope.nodes:
                    self._look_at(node)
        for node in dtype_graph.nodes():
            self._keep(node)

    def _keep(self, node: Node) -> None:
        ports = self._graph.ports[node]
        if ports.keep_reason or not (ports.following_inputs or ports.following_outputs):
            return
        picks = {lookup.indices for lookup in traits_of(node.op).indexing.lookups}
        # An index is bounded by its table.
        names = [node.inputs[place] for place in ports.following_inputs if place not in picks]
        for name in (*names, *(node.outputs[place] for place in ports.following_outputs)):
            bound = self._bound(node.scope, name)
            if bound > self._most and self._of_constant(node.scope, name) is None:
                what = f"{name!r} is bound by nothing" if bound == _FAR else f"{name!r} may reach {bound:,.3g}"
                self.found[node_address(node)] = "range", f"{what}, and {self._named} ends at {self._most:,.0f}"
                return

    def _of_input(self, name: str, *, converts: bool) -> float:
        role = self._roles.of_input(name)
        named = named_role(name)
        if named == "mask" or "mask" in role.flags:
            return _BITS
        if named is not None or not role.flags.isdisjoint(_OF_SIZES):
            return _SIZE
        if "lookup" in role.flags:
            tables = [limit.table for limit in role.limits]
            return max((float(table) if isinstance(table, int) else _ROWS for table in tables), default=_ROWS)
        return self._most if converts else _FAR

    def _bound(self, scope: Scope, name: str) -> float:
        """The largest magnitude that a tensor can hold, as far as it is known; else infinity."""
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
        dtype = self._graph.dtype(*key)
        if dtype == TensorProto.BOOL:
            return 1.0
        if dtype not in INTEGERS_AND_BOOL or dtype is None or dtype in (self._graph.change.old, TensorProto.UINT64):
            return _FAR
        return float(np.iinfo(dtype_of(dtype)).max)

    def _of_constant(self, scope: Scope, name: str) -> float | None:
        key = scope, name
        if key not in self._fixed:
            self._fixed[key] = self._largest(scope, name)
        return self._fixed[key]

    def _largest(self, scope: Scope, name: str) -> float | None:
        """The largest magnitude of a constant; None for others, and for weights, which are not read for this."""
        tensor = scope.initializers.get(name)
        if tensor is not None and tensor.data_type != self._graph.change.old and prod(tensor.dims) > SMALL:
            return None
        constants = self._graph.index.constants
        try:
            array = constants.array(scope, name) if constants.is_constant(scope, name) else None
        except ModelFileError:  # reported when it is written
            return None
        if array is None or array.dtype.kind not in "iubf":
            return None
        if array.dtype.kind == "f":
            return float(np.abs(array, dtype=np.float64).max(initial=0.0))
        numbers = np.abs(array.astype(np.float64))
        end = float(np.iinfo(np.int64).max)  # which means "to the end"
        most = float(numbers.max(initial=0.0, where=numbers < end))
        return most if array.size <= SMALL else min(most, self._most)  # larger ones are checked when they are written

    def _look_at(self, node: Node) -> None:
        facts, called = traits_of(node.op), self._graph.index.called(node)
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
        """The inputs that values come from."""
        if facts.dtype.is_cast:
            return [node.inputs[0]]
        places = facts.data.carried if facts.data.carried and not facts.control.selectors else range(len(node.inputs))
        if facts.control.selectors:
            places = [place for place in range(len(node.inputs)) if place not in facts.control.selectors]
        if facts.shape.axes is not None:
            places = [place for place in range(len(node.inputs)) if place in places and place != facts.shape.axes.slot]
        return [name for place, name in enumerate(node.inputs) if name and place in places]

    def _is_size(self, scope: Scope, name: str) -> bool:
        """Whether a tensor holds sizes, or is a small constant, as axes and widths are."""
        home = scope.defining_scope(name)
        if home is None or (home, name) in self._sizes:
            return home is not None
        bound = self._of_constant(home, name)
        return bound is not None and bound <= _SIZE

    def _made(self, node: Node, facts: OpTraits, given: Sequence[float]) -> float:
        """The bound of a node's output, given the bounds of its inputs."""
        value = node.attribute("value") if facts.shape.expands and not facts.data.carried else None
        if value is not None:
            return float(np.abs(numpy_helper.to_array(value.t).astype(np.float64)).max(initial=0.0))
        if not given:
            return _FAR
        if facts.algebra.divisors and not facts.algebra.family:  # a remainder
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
        """The bound of a quotient: of integers that of the dividend; of floats it grows with a small divisor."""
        if self._graph.dtype(node.scope, node.outputs[0]) in INTEGERS_AND_BOOL:
            return given
        constants, name = self._graph.index.constants, node.inputs[-1]
        array = constants.array(node.scope, name) if constants.is_constant(node.scope, name) else None
        least = 0.0 if array is None or not array.size else float(np.abs(array.astype(np.float64)).min())
        return given / least if least else _FAR

    def _bounding(self, node: Node, given: Sequence[float]) -> Sequence[float]:
        """The bounds of the inputs; for a Clip with fixed ends, the bound of its range."""
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
        """The inputs of a Loop's body: the iteration number, and the states."""
        owner = body.owner
        if owner is None or not traits_of(owner.op).control.trip_counts:
            return
        given, made = port_names(body.proto.input), port_names(body.proto.output)
        if given:
            self._bounds[body, given[0]] = _TURNS
            self._sizes.add((body, given[0]))
        for place, (inner, after) in enumerate(zip(given[2:], made[1:], strict=False)):
            first = self._bound(owner.scope, owner.inputs[place + 2])
            self._bounds[body, inner] = first + self._step(body, inner, after) * _TURNS

    def _step(self, body: Scope, inner: str, after: str) -> float:
        """How much a state grows in a turn."""
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
        """The outputs of a node with bodies, from its bodies' outputs."""
        first = 1 if traits_of(node.op).control.trip_counts else 0  # the first output of a Loop's body is its condition
        bodies = [(body, port_names(body.proto.output)[first:]) for body in node.scope.bodies if body.owner is node]
        for place, name in enumerate(node.outputs):
            made = [self._bound(body, names[place]) for body, names in bodies if place < len(names)]
            if name and made:
                self._bounds[node.scope, name] = max(made)

    def _call(self, node: Node, function: Scope) -> None:
        """The inputs of a function, the largest of all its calls, and the outputs of a call."""
        for inner, outer in zip(port_names(function.proto.input), node.inputs, strict=False):
            if outer and self._graph.dtype(node.scope, outer) is not None:
                bound = max(self._calls.get((function, inner), 0.0), self._bound(node.scope, outer))
                self._calls[function, inner] = self._bounds[function, inner] = bound
        for inner, outer in zip(port_names(function.proto.output), node.outputs, strict=False):
            self._bounds[node.scope, outer] = self._bound(function, inner)
