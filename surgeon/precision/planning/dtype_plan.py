"""One dtype for each tensor: what keeps the old one, what takes the new one, with the fewest Casts between.

Nodes that round nothing (a Reshape, a Max) are of whichever dtype needs fewer Casts: a least cut finds it.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from math import prod

from onnx import TensorProto

from surgeon.ir.scope import Node
from surgeon.ops.traits.dtype_traits import SELECTING
from surgeon.precision.analyses.dtype_graph import STORED, DtypeGraph, TensorKey, TypedTensor
from surgeon.precision.planning.min_cut import INFINITE_CAPACITY, SINK, SOURCE, FlowNetwork

_DOWN, _UP = 16 << 16, 17 << 16  # what Casts cost: one that narrows loses nothing that its readers could have had
_RATHER = 1  # of two ways with as many Casts, the one that moves fewer bytes
# But on a CPU a Transpose is rather in front of the Cast (quirks.TRANSPOSED_FLOAT16_MATMUL), and on a GPU behind it
# (quirks.CAST_BEFORE_CUDA_MATMUL).
_EARLY = 64
_WEIGHT = 1024  # bytes of a stored tensor from which on it is worth to be of the new dtype


@dataclass(slots=True)
class DtypePlan:
    """The dtype of each item, and the reasons of nodes that keep the old one."""

    wiring: DtypeGraph
    """The tensors, nodes and items of the model."""
    kept_items: set[int]
    """Items that keep the old dtype."""
    kept: dict[Node, str] = field(default_factory=dict)
    """Reasons of nodes that keep the old dtype though they could have the new one."""
    names: dict[Node, str] = field(default_factory=dict)
    """Labels of kept and choosing nodes, because nodes move once a plan is written."""
    followers: set[Node] = field(default_factory=set)
    """Nodes that keep the old dtype because their neighbours do."""

    def is_new(self, item: int) -> bool:
        """Whether an item is of the new dtype."""
        return item not in self.kept_items

    def is_produced_new(self, wire: TypedTensor) -> bool:
        """Whether a tensor is made in the new dtype: a stored one where all that read it want it so."""
        if wire.maker != STORED:
            return self.is_new(wire.maker)
        return bool(wire.uses) and all(self.is_new(use.item) for use in wire.uses)

    def casts(self) -> Iterable[tuple[TypedTensor, bool]]:
        """The tensors that are wanted in both dtypes, or in the other one; with whether that is the new one."""
        for wire in self.wiring.tensors.values():
            is_new = self.is_produced_new(wire)
            if any(self.is_new(use.item) != is_new for use in wire.uses):
                yield wire, not is_new

    @property
    def changed(self) -> list[Node]:
        """The nodes that are of the new dtype."""
        items, ports = self.wiring.dtype_groups, self.wiring.ports
        new = (
            node
            for node, item in items.items()
            if self.is_new(item) and (ports[node].following_inputs or ports[node].following_outputs)
        )
        return [node for node in new if not (node.outputs and (node.scope, node.outputs[0]) in self.wiring.sources)]


def plan_dtypes(
    wiring: DtypeGraph, pins: Mapping[Node, str], unfit: Mapping[TensorKey, str], *, transposed_first: bool = True
) -> DtypePlan:
    """The plan for a model.

    pins: nodes that are to keep the old dtype, with the reason.  unfit: stored tensors that are to be read in it.
    transposed_first: whether a Transpose of the factor of a product is rather in front of a Cast than behind it.
    """
    why = dict(wiring.pinned)
    for key, reason in unfit.items():
        wire = wiring.tensors[key]
        for item in (wire.maker, *(use.item for use in wire.uses)):
            why.setdefault(item, reason)
    for node, reason in pins.items():
        why.setdefault(wiring.dtype_groups[node], reason)
    early = {item for node, item in wiring.dtype_groups.items() if node.op == "Transpose" and _feeds_product(node)}
    pinned = {item for item in why if item not in (SOURCE, SINK, STORED)}
    old = _cut(wiring, pinned, early if transposed_first else frozenset())
    plan = DtypePlan(wiring, old)
    for node, item in wiring.dtype_groups.items():
        ports = wiring.ports[node]
        if ports.keep_reason:
            if not wiring.change.is_integer:  # sizes and shapes are of int64, which is no choice of anybody's
                plan.kept[node] = ports.keep_reason
        elif item in why and (ports.following_inputs or ports.following_outputs) and not _is_free(wiring, node):
            plan.kept[node] = why[item]
        elif item in old and ports.following_inputs:
            plan.followers.add(node)
    plan.names = {node: node.label for node in wiring.dtype_groups if node in plan.kept or node.op in SELECTING}
    return plan


def _is_free(wiring: DtypeGraph, node: Node) -> bool:
    """Whether a node is but a stored value, which is of whichever dtype it is read in."""
    return all(
        (wire := wiring.tensors.get((node.scope, name))) and wire.maker == STORED for name in node.outputs if name
    )


def _cut(wiring: DtypeGraph, pinned: Set[int], early: Set[int]) -> set[int]:
    """The items that are to keep the old dtype.  early: those that are rather in front of a Cast."""
    network, names = FlowNetwork(), {SOURCE: SOURCE, SINK: SINK}
    wanted = wiring.wanted | _storing(wiring)
    for item in range(2, wiring.count):
        names[item] = SOURCE if item in pinned else SINK if item in wanted else network.item()
    for wire in wiring.tensors.values():
        if wire.maker == STORED:
            continue
        maker, users = names[wire.maker], {names[use.item] for use in wire.uses}
        if users <= {maker}:
            continue
        narrowed, widened = network.item(), network.item()
        network.edge(maker, narrowed, _DOWN)
        network.edge(widened, maker, _UP)
        for user in users - {maker}:
            network.edge(narrowed, user, INFINITE_CAPACITY)
            network.edge(user, widened, INFINITE_CAPACITY)
    for item, name in names.items():
        if name not in (SOURCE, SINK):
            network.edge(*((SOURCE, name, _EARLY) if item in early else (name, SINK, _RATHER)))
    old = network.cut()
    return {item for item, name in names.items() if name in old}


def _feeds_product(node: Node) -> bool:
    return any(reader.op == "MatMul" for name in node.outputs for reader in node.scope.readers(name))


def _storing(wiring: DtypeGraph) -> set[int]:
    """Items that round nothing, but read weights: what they store takes half the place in the new dtype."""
    found: set[int] = set()
    for (scope, name), wire in wiring.tensors.items():
        tensor = scope.initializers.get(name)
        if tensor is not None and wire.maker == STORED and _bytes(tensor) >= _WEIGHT:
            found.update(use.item for use in wire.uses if use.node is not None)
    return found - {SOURCE, SINK}


def _bytes(tensor: TensorProto) -> int:
    return int(prod(tensor.dims)) * 4

