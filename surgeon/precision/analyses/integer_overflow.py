"""Integers beyond the range of int32: not indices, counts and sizes, which stay small.

Runs on generated inputs do not show the values of a clock in milliseconds, or of a hash.  So the bounds come from the
graph.
"""

import numpy as np

from surgeon.analysis.input_roles import InputRoles, named_role
from surgeon.analysis.integer_range import ANY, SMALL, IntegerRanges, NumberRange, around_zero
from surgeon.file.tensors.casting import finite_limits
from surgeon.ir.scope import Node
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.precision.analyses.dtype_graph import DtypeGraph
from surgeon.precision.kept_nodes.selectors import NodeAddress, node_address

_MAX_BITS = 8.0  # values of a mask
_OF_SIZES = frozenset(("count", "length", "target", "trip", "zero"))
_END = 2.0**63
"""From here on a range has the end of int64."""


class IntegerOverflow(IntegerRanges):
    """The nodes with integers that may be beyond the new dtype, each with the kind of its reason and the reason.

    converts: whether the inputs of the model get the new dtype too.
    """

    max_size, max_rows, max_trips, tame = 2.0**16, 2.0**20, 2.0**14, 1024.0

    def __init__(self, dtype_graph: DtypeGraph, *, converts: bool) -> None:
        super().__init__(dtype_graph.index, dtype_graph.dtype)
        self._graph, self._converts, self._roles = dtype_graph, converts, InputRoles(dtype_graph.index)
        self.max_of_sizes = finite_limits(dtype_graph.change.new)[1]  # a tensor has at most as many elements
        self.found: dict[NodeAddress, tuple[str, str]] = {}
        for node in dtype_graph.nodes():
            self._keep(node)

    def _keep(self, node: Node) -> None:
        ports, most = self._graph.ports[node], self.max_of_sizes
        if ports.keep_reason or not (ports.following_inputs or ports.following_outputs):
            return
        picks = {lookup.indices for lookup in traits_of(node.op).indexing.lookups}  # an index is bounded by its table
        names = [node.inputs[place] for place in ports.following_inputs if place not in picks]
        for name in (*names, *(node.outputs[place] for place in ports.following_outputs)):
            bound = self[self.edges.tensor(node.scope, name)].magnitude
            if bound > most and not self.index.constants.is_constant(node.scope, name):
                what = f"{name!r} has no known bound" if bound >= _END else f"{name!r} may reach {bound:,.3g}"
                named = self._graph.change.names[1]
                self.found[node_address(node)] = "range", f"{what}; the largest {named} is {most:,.0f}"
                return

    def of_input(self, name: str) -> NumberRange:
        """The range of an input of the model, as assumed or by its role."""
        if (assumed := super().of_input(name)) != ANY:
            return assumed
        role, named = self._roles.of_input(name), named_role(name)
        if named == "mask" or "mask" in role.flags:
            return around_zero(_MAX_BITS)
        if named is not None or not role.flags.isdisjoint(_OF_SIZES):
            return around_zero(self.max_size)
        if "lookup" in role.flags:
            rows = [limit.table if isinstance(limit.table, int) else self.max_rows for limit in role.limits]
            return around_zero(max(rows, default=self.max_rows))
        return around_zero(self.max_of_sizes) if self._converts else ANY

    def of_constant(self, array: np.ndarray) -> NumberRange:
        """The range of a constant, without the largest integer, which means "to the end"."""
        if array.dtype.kind == "f":
            return super().of_constant(array)
        found = super().of_constant(array[np.abs(array.astype(np.float64)) < _END])
        if array.size <= SMALL or found.magnitude <= self.max_of_sizes:
            return found
        return around_zero(self.max_of_sizes)  # large ones are checked when they are written
