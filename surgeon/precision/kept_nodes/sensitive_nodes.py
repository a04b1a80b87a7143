"""What must not be of half precision, by what runs of the original showed, and by formulas that lose there.

Each reason has the number that it rests on.
"""

from collections.abc import Collection, Iterator, Mapping
from math import prod

from surgeon.file.tensors.casting import finite_limits, smallest
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.dtype_traits import DIVERGING_AT_ZERO, PERIODIC, STEEP_NEAR_ZERO, UNBOUNDED_SUMS
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.precision.analyses.accumulation import Accumulation, is_running_sum
from surgeon.precision.analyses.decomposed_norms import Norms
from surgeon.precision.analyses.dtype_graph import STORED, DtypeGraph, TypedTensor
from surgeon.precision.analyses.epsilon_guards import EpsilonGuards
from surgeon.precision.analyses.exact_integers import ExactIntegers
from surgeon.precision.analyses.mask_sentinels import MaskSentinels
from surgeon.precision.kept_nodes.selectors import NodeAddress, node_address
from surgeon.precision.kept_nodes.unstable_formulas import UnstableFormulas
from surgeon.precision.measuring.range_instrumentation import INFINITY, ObservedRange, Tensor
from surgeon.precision.planning.min_cut import SOURCE
from surgeon.shapes.algebra.size_expressions import symbols
from surgeon.shapes.tensor_types import BOOL, INTEGERS_AND_BOOL

HEADROOM = 2.0
"""How often what was seen has to fit: other inputs make larger numbers."""
LONG_SOFTMAX = 2048
"""Sums of so many parts of one lose digits in half precision."""
MANY_ROWS = 4096
"""Sums over a free axis have so many terms somewhere, however few are tried."""
_WIDE = 1e30  # what reaches further holds all squares there are
_MOST = 16  # nodes between a place in a text and its angle
_UNSEEN = "no run that was made enters this body, so that nothing is known of its numbers"
_ANGLE = 16.0  # from here on the rounding of an angle is a hundredth of a turn


class SensitiveNodes:
    """Nodes to keep, each with the kind of its reason and the reason.

    ranges: of tensors; without any only what the graph itself tells is found.  dims: the free dimensions whose size is
    told, which are no longer elsewhere.
    """

    def __init__(
        self,
        wiring: DtypeGraph,
        fills: MaskSentinels,
        ranges: Mapping[Tensor, ObservedRange],
        dims: Collection[str] = (),
    ) -> None:
        self._wiring, self._fills, self._ranges, self._dims = wiring, fills, ranges, frozenset(dims)
        self._high = finite_limits(wiring.change.new)[1]
        self._named = wiring.change.names[1]
        self.found: dict[NodeAddress, tuple[str, str]] = {}
        if not wiring.change.narrows:
            return
        self._stored()
        for node, reason in EpsilonGuards(wiring, fills.small).found.items():
            self._keep(node, "weight", reason)
        for (scope, name), wire in wiring.tensors.items():
            noted = ranges.get((scope.address, name))
            if noted is not None:
                self._look_at(wire, noted)
        for node, reason in ExactIntegers(wiring).reasons(self._named):
            self._keep(node, "range", reason)
        for node, reason in Accumulation(wiring, dims).found.items():
            self._keep(node, "sum", reason)
        self._formulas = UnstableFormulas(wiring, dims)
        unseen = set(self._unseen())
        for node in wiring.nodes():
            if node.scope in unseen and not traits_of(node.op).data.copies_elements:
                self._keep(node, "range", _UNSEEN)
            elif not wiring.ports[node].keep_reason:
                self._look_at_node(node)
        for node in Norms(wiring).found:
            self._keep(node, "formula", self._why_norm())
        for node, reason in self._formulas.found.items() if self._high <= _WIDE else ():
            self._keep(node, "formula", reason)

    def _why_norm(self) -> str:
        if self._high > _WIDE:
            return f"a root of a mean of squares by hand, of whose sums {self._named} keeps too few digits"
        return f"a root of a mean of squares by hand, whose squares leave {self._named} at both ends"

    def _unseen(self) -> Iterator[Scope]:
        """Bodies that no run reached."""
        for scope in self._wiring.scopes if self._ranges else ():
            tensors = (name for node in scope.nodes for name in node.outputs if scope.parent is not None)
            noted = [one for name in tensors if (one := self._ranges.get((scope.address, name))) is not None]
            if noted and all(one.max_abs == 0 and one.min_abs == INFINITY for one in noted):
                yield scope

    def _keep(self, node: Node | None, kind: str, reason: str) -> None:
        if node is not None and self._wiring.ports[node].any:
            self.found.setdefault(node_address(node), (kind, reason))

    def _range(self, scope: Scope, name: str) -> ObservedRange | None:
        home = scope.defining_scope(name)
        return None if home is None else self._ranges.get((home.address, name))

    def _stored(self) -> None:
        for key, reason in self._fills.unfit.items():
            wire = self._wiring.tensors[key]
            if wire.maker != STORED:
                self._keep(wire.node, "weight", reason)
            for use in wire.uses:
                if use.item != SOURCE:  # else it reads the old dtype whatever becomes of it
                    self._keep(use.node, "weight", reason)

    def _look_at(self, wire: TypedTensor, noted: ObservedRange) -> None:
        """Keep who makes and who reads what is too large."""
        most = noted.max_abs_unmasked if self._fills.only_masks(wire) else noted.max_abs
        if wire.maker == STORED or most * HEADROOM <= self._high:
            return
        reason = f"{wire.name!r} reaches {most:,.6g}, and {self._named} ends at {self._high:,.6g}"
        self._keep(wire.node, "range", reason)
        for use in wire.uses:
            self._keep(use.node, "range", reason)

    def _look_at_node(self, node: Node) -> None:
        facts, scope = traits_of(node.op), node.scope
        for place in (*facts.algebra.divisors, *((0,) if node.op in STEEP_NEAR_ZERO else ())):
            if place < len(node.inputs):
                self._near_zero(node, node.inputs[place])
        noted = self._range(scope, node.inputs[0]) if node.inputs else None
        if noted is not None and facts.numerics.reduces == "sum":
            self._sum(node, noted)
        if noted is not None and facts.numerics.is_softmax and noted.shape:
            axis = node.attribute("axis")
            length = noted.shape[axis.i if axis is not None else -1] if len(noted.shape) else 0
            if length > LONG_SOFTMAX:
                reason = f"a softmax over {length:,}, and {self._named} adds up {LONG_SOFTMAX:,} at most"
                self._keep(node, "sum", reason)
        if node.op in PERIODIC and noted is not None and noted.max_abs > _ANGLE:
            reason = f"an angle of {noted.max_abs:,.4g}, of which {self._named} keeps too little"
            for one in (node, *self._makers(scope, node.inputs[0])):
                self._keep(one, "range", reason)
        if node.op in PERIODIC and (counted := self._counted(scope, node.inputs[0])):
            reason = f"an angle that follows positions, of which {self._named} keeps too little where there are many"
            for one in (node, *counted):
                self._keep(one, "range", reason)
        if facts.indexing.reads_coordinates and not facts.products.slides_window:
            self._samples(node)

    def _samples(self, node: Node) -> None:
        """Keep a picture that is read at places, where it may be larger than those that were tried, and the places."""
        scope, places = node.scope, node.inputs[1]
        shape = None if scope.function is not None else self._wiring.draft.shapes.shape(scope, node.inputs[0])
        sizes = [size for size in shape[2:] if not isinstance(size, int)] if shape is not None else []
        free = [size for size in sizes if not symbols(size) <= self._dims]
        if shape is not None and not free:
            return
        size = " by ".join(map(str, free)) or "any size"
        reason = f"it reads a picture of {size} at coordinates, of which {self._named} keeps too little in a large one"
        for one in (node, *self._makers(scope, places), *self._counted(scope, places)):
            self._keep(one, "range", reason)

    def _near_zero(self, node: Node, name: str) -> None:
        """Keep a division by what half precision takes for zero, or nearly so."""
        noted, tiny = self._range(node.scope, name), smallest(self._wiring.change.new)
        wire = self._wiring.wire(node.scope, name)
        if noted is None or wire is None or wire.maker == STORED or noted.min_abs >= tiny or noted.min_abs == INFINITY:
            return
        if noted.max_abs == 0:
            return
        if node.op in STEEP_NEAR_ZERO and not self._divides(node):
            return
        reason = f"{name!r} comes down to {noted.min_abs:.3g}, and {self._named} has all digits from {tiny:.3g} on"
        for one in (node, *self._makers(node.scope, name)):
            self._keep(one, "range", reason)

    def _divides(self, node: Node) -> bool:
        """Whether what a node makes is divided by, at once or behind a bound or another root."""
        for name in node.outputs:
            for reader in node.scope.readers(name):
                facts = traits_of(reader.op)
                if any(place < len(reader.inputs) and reader.inputs[place] == name for place in facts.algebra.divisors):
                    return True
        return node.op in DIVERGING_AT_ZERO

    def _sum(self, node: Node, noted: ObservedRange) -> None:
        """Keep a sum whose terms are in range together are not."""
        made = self._range(node.scope, node.outputs[0])
        count = prod(noted.shape) / max(prod(made.shape), 1) if made is not None else 1
        mean = noted.mean_square if traits_of(node.op).numerics.squares else noted.mean_abs
        if node.op in UNBOUNDED_SUMS and self._formulas.dynamic_sizes(node):
            count = max(count, MANY_ROWS)
        if count * mean * HEADROOM > self._high:
            total = f"it adds up {count:,.0f} numbers to {count * mean:,.4g}"
            self._keep(node, "sum", f"{total}, and {self._named} ends at {self._high:,.6g}")

    def _makers(self, scope: Scope, name: str) -> Iterator[Node]:
        """The nodes that a tensor is made by, back to those that round."""
        waiting, seen = [(scope, name)], set[tuple[Scope, str]]()
        while waiting:
            key = waiting.pop()
            wire = self._wiring.wire(*key)
            node = None if wire is None else wire.node
            if key in seen or wire is None or node is None or wire.maker == STORED:
                continue
            seen.add(key)
            yield node
            if not self._wiring.ports[node].benefits:
                ports = self._wiring.ports[node]
                waiting += [(node.scope, node.inputs[place]) for place in ports.following_inputs]

    def _counted(self, scope: Scope, name: str) -> list[Node]:
        """The nodes that make a tensor of numbers from outside, as of places in a text; none where it is of none.

        They are integers, an input of floats itself, as a time is, a range or a running sum.  However small those are
        that were seen, others are as large as a text is long.
        """
        found: dict[Node, None] = {}
        main = self._wiring.index.main
        waiting, is_counted = [name], False
        while waiting and len(found) < _MOST:
            given = waiting.pop()
            node = scope.producers.get(given)
            is_counted |= (
                scope.defining_scope(given) is main and given in main.inputs and given not in main.initializers
            )
            if node is None or node in found:
                continue
            facts = traits_of(node.op)
            if _counts(node) or (facts.dtype.is_cast and self._is_place(scope, node.inputs[0])):
                is_counted = True
                found[node] = None
            elif (
                facts.dtype.is_cast
                or facts.algebra.family
                or facts.data.copies_elements
                or facts.products.kind in ("matmul", "einsum")
            ):
                found[node] = None
                waiting += [item for item in node.inputs if self._wiring.wire(scope, item) is not None]
        return list(found) if is_counted else []

    def _is_place(self, scope: Scope, name: str) -> bool:
        """Whether a tensor holds integers that no constant is."""
        home = scope.defining_scope(name)
        is_whole = home is not None and self._wiring.dtype(home, name) in INTEGERS_AND_BOOL - {BOOL}
        return is_whole and not self._wiring.index.constants.is_constant(scope, name)


def _counts(node: Node) -> bool:
    """Whether a node makes a range, or a running sum."""
    facts = traits_of(node.op)
    is_range = facts.shape.expands and facts.operands.offsets and not facts.data.copies_elements
    return bool(is_range) or is_running_sum(node)
