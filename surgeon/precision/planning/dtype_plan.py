"""The plan of a conversion: one dtype for each tensor, with the fewest Casts between nodes that must differ.

Nodes that do not round (a Reshape, a Max) get the dtype that needs fewer Casts: a minimum cut finds it.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from math import prod

from onnx import TensorProto

from surgeon.ir.scope import Node
from surgeon.ops.traits.dtype_traits import SELECTING
from surgeon.precision.analyses.dtype_graph import STORED, DtypeGraph, TensorKey, TypedTensor
from surgeon.precision.planning.min_cut import INFINITE_CAPACITY, SINK, SOURCE, FlowNetwork

_DOWN, _UP = 16 << 16, 17 << 16  # costs of Casts: a narrowing one loses nothing that its consumers would keep
_RATHER = 1  # tie break between equal numbers of Casts: fewer bytes
# On a CPU a Transpose comes before the Cast (quirks.TRANSPOSED_FLOAT16_MATMUL), on a GPU after it
# (quirks.CAST_BEFORE_CUDA_MATMUL).
_EARLY = 64
_WEIGHT = 1024  # bytes of a stored tensor from which converting it is worth a Cast


@dataclass(slots=True)
class DtypePlan:
    """The dtype of each item, and the reasons of nodes that keep the old one."""

    dtype_graph: DtypeGraph
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
        """Whether an item has the new dtype."""
        return item not in self.kept_items

    def is_produced_new(self, wire: TypedTensor) -> bool:
        """Whether a tensor is produced in the new dtype; a stored one if all its consumers have the new dtype."""
        if wire.maker != STORED:
            return self.is_new(wire.maker)
        return bool(wire.uses) and all(self.is_new(use.item) for use in wire.uses)

    def casts(self) -> Iterable[tuple[TypedTensor, bool]]:
        """The tensors that some consumer needs in the other dtype, with whether that is the new one."""
        for wire in self.dtype_graph.tensors.values():
            is_new = self.is_produced_new(wire)
            if any(self.is_new(use.item) != is_new for use in wire.uses):
                yield wire, not is_new

    @property
    def changed(self) -> list[Node]:
        """The nodes that have the new dtype."""
        items, ports = self.dtype_graph.dtype_groups, self.dtype_graph.ports
        new = (
            node
            for node, item in items.items()
            if self.is_new(item) and (ports[node].following_inputs or ports[node].following_outputs)
        )
        return [
            node for node in new if not (node.outputs and (node.scope, node.outputs[0]) in self.dtype_graph.sources)
        ]


def plan_dtypes(
    dtype_graph: DtypeGraph,
    kept: Mapping[Node, str],
    misfits: Mapping[TensorKey, str],
    *,
    transposed_first: bool = True,
) -> DtypePlan:
    """The plan for a model.

    kept: nodes that must keep the old dtype, with the reason.  misfits: stored tensors whose consumers must keep it.
    transposed_first: whether a Transpose before a matrix product comes before a Cast.
    """
    why = dict(dtype_graph.keep_reasons)
    for key, reason in misfits.items():
        wire = dtype_graph.tensors[key]
        for item in (wire.maker, *(use.item for use in wire.uses)):
            why.setdefault(item, reason)
    for node, reason in kept.items():
        why.setdefault(dtype_graph.dtype_groups[node], reason)
    early = {item for node, item in dtype_graph.dtype_groups.items() if node.op == "Transpose" and _feeds_product(node)}
    kept_items = {item for item in why if item not in (SOURCE, SINK, STORED)}
    old = _cut(dtype_graph, kept_items, early if transposed_first else frozenset())
    plan = DtypePlan(dtype_graph, old)
    for node, item in dtype_graph.dtype_groups.items():
        ports = dtype_graph.ports[node]
        if ports.keep_reason:
            if not dtype_graph.change.is_integer:  # sizes and shapes are always int64
                plan.kept[node] = ports.keep_reason
        elif item in why and (ports.following_inputs or ports.following_outputs) and not _is_free(dtype_graph, node):
            plan.kept[node] = why[item]
        elif item in old and ports.following_inputs:
            plan.followers.add(node)
    plan.names = {node: node.label for node in dtype_graph.dtype_groups if node in plan.kept or node.op in SELECTING}
    return plan


def _is_free(dtype_graph: DtypeGraph, node: Node) -> bool:
    """Whether a node is a stored value, which can have the dtype of its consumers."""
    return all(
        (wire := dtype_graph.tensors.get((node.scope, name))) and wire.maker == STORED for name in node.outputs if name
    )


def _cut(dtype_graph: DtypeGraph, kept_items: Set[int], early: Set[int]) -> set[int]:
    """The items that keep the old dtype.  early: items that prefer to come before a Cast."""
    network, names = FlowNetwork(), {SOURCE: SOURCE, SINK: SINK}
    wanted = dtype_graph.wanted | _storing(dtype_graph)
    for item in range(2, dtype_graph.count):
        names[item] = SOURCE if item in kept_items else SINK if item in wanted else network.item()
    for wire in dtype_graph.tensors.values():
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


def _storing(dtype_graph: DtypeGraph) -> set[int]:
    """Items that do not round but read large weights, whose storage shrinks in the new dtype."""
    found: set[int] = set()
    for (scope, name), wire in dtype_graph.tensors.items():
        tensor = scope.initializers.get(name)
        if tensor is not None and wire.maker == STORED and _bytes(tensor) >= _WEIGHT:
            found.update(use.item for use in wire.uses if use.node is not None)
    return found - {SOURCE, SINK}


def _bytes(tensor: TensorProto) -> int:
    return int(prod(tensor.dims)) * 4
