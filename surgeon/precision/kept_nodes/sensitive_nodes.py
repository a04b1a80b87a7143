"""Nodes that must not run in half precision, by ranges of the original's tensors and by formulas that lose digits.

Each reason has the number that decides it.
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
"""Factor on observed ranges: other inputs give larger numbers."""
LONG_SOFTMAX = 2048
"""Length of a softmax from which its sum loses digits in half precision."""
MANY_ROWS = 4096
"""Terms assumed for a sum over a dynamic axis, however few the runs have."""
_WIDE = 1e30  # a dtype with a larger range holds all squares
_MAX_NODES = 16  # nodes between a position and its angle
_UNSEEN = "no run enters this body, so its values are unknown"
_ANGLE = 16.0  # an angle from which its rounding is a hundredth of a turn


class SensitiveNodes:
    """Nodes to keep, each with the kind of its reason and the reason.

    ranges: of tensors; without any, only the graph decides.  dims: dynamic dims whose size the user gives; they are not
    longer elsewhere.
    """

    def __init__(
        self,
        dtype_graph: DtypeGraph,
        sentinels: MaskSentinels,
        ranges: Mapping[Tensor, ObservedRange],
        dims: Collection[str] = (),
    ) -> None:
        self._graph, self._sentinels, self._ranges, self._dims = dtype_graph, sentinels, ranges, frozenset(dims)
        self._high = finite_limits(dtype_graph.change.new)[1]
        self._named = dtype_graph.change.names[1]
        self.found: dict[NodeAddress, tuple[str, str]] = {}
        if not dtype_graph.change.narrows:
            return
        self._stored()
        for node, reason in EpsilonGuards(dtype_graph, sentinels.small).found.items():
            self._keep(node, "weight", reason)
        for (scope, name), wire in dtype_graph.tensors.items():
            noted = ranges.get((scope.address, name))
            if noted is not None:
                self._look_at(wire, noted)
        for node, reason in ExactIntegers(dtype_graph).reasons(self._named):
            self._keep(node, "range", reason)
        for node, reason in Accumulation(dtype_graph, dims).found.items():
            self._keep(node, "sum", reason)
        self._formulas = UnstableFormulas(dtype_graph, dims)
        unseen = set(self._unseen())
        for node in dtype_graph.nodes():
            if node.scope in unseen and not traits_of(node.op).data.copies_elements:
                self._keep(node, "range", _UNSEEN)
            elif not dtype_graph.ports[node].keep_reason:
                self._look_at_node(node)
        for node in Norms(dtype_graph).found:
            self._keep(node, "formula", self._why_norm())
        for node, reason in self._formulas.found.items() if self._high <= _WIDE else ():
            self._keep(node, "formula", reason)

    def _why_norm(self) -> str:
        if self._high > _WIDE:
            return f"part of a written-out norm, whose sum needs more digits than {self._named} has"
        return f"part of a written-out norm, whose squares can overflow and underflow in {self._named}"

    def _unseen(self) -> Iterator[Scope]:
        """Bodies that no run entered."""
        for scope in self._graph.scopes if self._ranges else ():
            tensors = (name for node in scope.nodes for name in node.outputs if scope.parent is not None)
            noted = [one for name in tensors if (one := self._ranges.get((scope.address, name))) is not None]
            if noted and all(one.max_abs == 0 and one.min_abs == INFINITY for one in noted):
                yield scope

    def _keep(self, node: Node | None, kind: str, reason: str) -> None:
        if node is not None and self._graph.ports[node].any:
            self.found.setdefault(node_address(node), (kind, reason))

    def _range(self, scope: Scope, name: str) -> ObservedRange | None:
        home = scope.defining_scope(name)
        return None if home is None else self._ranges.get((home.address, name))

    def _stored(self) -> None:
        for key, reason in self._sentinels.misfits.items():
            wire = self._graph.tensors[key]
            if wire.maker != STORED:
                self._keep(wire.node, "weight", reason)
            for use in wire.uses:
                if use.item != SOURCE:  # otherwise it reads the old dtype anyway
                    self._keep(use.node, "weight", reason)

    def _look_at(self, wire: TypedTensor, noted: ObservedRange) -> None:
        """Keep the producer and the consumers of a tensor with too large elements."""
        most = noted.max_abs_unmasked if self._sentinels.only_masks(wire) else noted.max_abs
        if wire.maker == STORED or most * HEADROOM <= self._high:
            return
        reason = f"{wire.name!r} reaches {most:,.6g}; the largest {self._named} is {self._high:,.6g}"
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
                reason = f"a softmax over {length:,}; {self._named} can add at most {LONG_SOFTMAX:,} equal terms"
                self._keep(node, "sum", reason)
        if node.op in PERIODIC and noted is not None and noted.max_abs > _ANGLE:
            reason = f"the angle reaches {noted.max_abs:,.4g}, where {self._named} is too coarse"
            for one in (node, *self._makers(scope, node.inputs[0])):
                self._keep(one, "range", reason)
        if node.op in PERIODIC and (counted := self._counted(scope, node.inputs[0])):
            reason = f"the angle depends on positions; for large ones, {self._named} is too coarse"
            for one in (node, *counted):
                self._keep(one, "range", reason)
        if facts.indexing.reads_coordinates and not facts.products.slides_window:
            self._samples(node)

    def _samples(self, node: Node) -> None:
        """Keep an image that is read at coordinates, and the coordinates, if it may be larger than in the runs."""
        scope, places = node.scope, node.inputs[1]
        shape = None if scope.function is not None else self._graph.draft.shapes.shape(scope, node.inputs[0])
        sizes = [size for size in shape[2:] if not isinstance(size, int)] if shape is not None else []
        free = [size for size in sizes if not symbols(size) <= self._dims]
        if shape is not None and not free:
            return
        size = " by ".join(map(str, free)) or "any size"
        reason = f"it reads an image of {size} at coordinates; in a large image, {self._named} is too coarse"
        for one in (node, *self._makers(scope, places), *self._counted(scope, places)):
            self._keep(one, "range", reason)

    def _near_zero(self, node: Node, name: str) -> None:
        """Keep a division by numbers that are zero or nearly zero in half precision."""
        noted, tiny = self._range(node.scope, name), smallest(self._graph.change.new)
        wire = self._graph.wire(node.scope, name)
        if noted is None or wire is None or wire.maker == STORED or noted.min_abs >= tiny or noted.min_abs == INFINITY:
            return
        if noted.max_abs == 0:
            return
        if node.op in STEEP_NEAR_ZERO and not self._divides(node):
            return
        reason = f"{name!r} goes down to {noted.min_abs:.3g}; {self._named} loses digits below {tiny:.3g}"
        for one in (node, *self._makers(node.scope, name)):
            self._keep(one, "range", reason)

    def _divides(self, node: Node) -> bool:
        """Whether a node's output is a divisor, directly or through a bound or another root."""
        for name in node.outputs:
            for reader in node.scope.readers(name):
                facts = traits_of(reader.op)
                if any(place < len(reader.inputs) and reader.inputs[place] == name for place in facts.algebra.divisors):
                    return True
        return node.op in DIVERGING_AT_ZERO

    def _sum(self, node: Node, noted: ObservedRange) -> None:
        """Keep a sum that overflows although its terms are in range."""
        made = self._range(node.scope, node.outputs[0])
        count = prod(noted.shape) / max(prod(made.shape), 1) if made is not None else 1
        mean = noted.mean_square if traits_of(node.op).numerics.squares else noted.mean_abs
        if node.op in UNBOUNDED_SUMS and self._formulas.dynamic_sizes(node):
            count = max(count, MANY_ROWS)
        if count * mean * HEADROOM > self._high:
            total = f"it adds {count:,.0f} numbers, in total {count * mean:,.4g}"
            self._keep(node, "sum", f"{total}; the largest {self._named} is {self._high:,.6g}")

    def _makers(self, scope: Scope, name: str) -> Iterator[Node]:
        """The producers of a tensor, back to nodes that round."""
        waiting, seen = [(scope, name)], set[tuple[Scope, str]]()
        while waiting:
            key = waiting.pop()
            wire = self._graph.wire(*key)
            node = None if wire is None else wire.node
            if key in seen or wire is None or node is None or wire.maker == STORED:
                continue
            seen.add(key)
            yield node
            if not self._graph.ports[node].benefits:
                ports = self._graph.ports[node]
                waiting += [(node.scope, node.inputs[place]) for place in ports.following_inputs]

    def _counted(self, scope: Scope, name: str) -> list[Node]:
        """The producers of a tensor that holds positions or times; empty if it holds neither.

        These are integers, float inputs of the model, ranges or running sums.  However small they were in the runs,
        they grow with the length of the input.
        """
        found: dict[Node, None] = {}
        main = self._graph.index.main
        waiting, is_counted = [name], False
        while waiting and len(found) < _MAX_NODES:
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
                waiting += [item for item in node.inputs if self._graph.wire(scope, item) is not None]
        return list(found) if is_counted else []

    def _is_place(self, scope: Scope, name: str) -> bool:
        """Whether a tensor holds computed integers."""
        home = scope.defining_scope(name)
        is_whole = home is not None and self._graph.dtype(home, name) in INTEGERS_AND_BOOL - {BOOL}
        return is_whole and not self._graph.index.constants.is_constant(scope, name)


def _counts(node: Node) -> bool:
    """Whether a node computes a range, or a running sum."""
    facts = traits_of(node.op)
    is_range = facts.shape.expands and facts.operands.offsets and not facts.data.copies_elements
    return bool(is_range) or is_running_sum(node)
