"""The slice of the source that the proof of a region needs, and the tensors at which its inputs begin.

Shapes, lengths and masks must stay as consistent as the model makes them, so a slice goes back through integer tensors
to the data they come from.  It begins at tensors of floats, unless another input holds the same values by another node:
the matcher takes two equal nodes for one, and so must the proof.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import TensorProto

from surgeon.analysis.assumptions.assumed_facts import AssumedFacts
from surgeon.connected_components import topological_order
from surgeon.file.tensors.decoding import encode
from surgeon.ir.equivalence import DEPTH
from surgeon.ir.original_model import OriginalModel, TensorAddress
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.trait_lookup import TRANSPARENT
from surgeon.ops.traversal import GRAPHS, captured_names, unique_name
from surgeon.proof.region.data_dependence import MAX_NODES, DataDependence
from surgeon.proof.region.inferred_sizes import inferred_size
from surgeon.proof.region.region import Region
from surgeon.proof.region.region_inputs import BoundaryInput
from surgeon.proof.region.value_equivalence import Key, ValueEquivalence, source_before_reshapes
from surgeon.proof.site_proof import CannotSlice
from surgeon.shapes.algebra.size_expressions import Size
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.shapes.tensor_types import INTEGERS_AND_BOOL

MAX_CONSTANT_ELEMENTS = 4096  # a larger weight gets random values, and is read only if the proof fails without it
BYTE_DTYPES = frozenset({TensorProto.INT8, TensorProto.UINT8})
EXACT_DTYPES = INTEGERS_AND_BOOL - BYTE_DTYPES  # of large constants whose values matter: masks and indices


@dataclass(slots=True)
class RegionSlice:
    """A region with the nodes, constants and inputs that its proof needs.  Raises CannotSlice.

    It is one search whose results are read together, so it has more than twelve attributes.
    """

    region: Region
    """The region to prove."""
    origin: OriginalModel
    """The source model."""
    shapes: ShapeInference
    """The shapes of the source."""
    real_weights: bool = False
    """Read large weights by value."""
    depth: int = 0
    """How many more nodes to go back from each boundary input that depends only on integers."""
    boundary_inputs: dict[Key, BoundaryInput] = field(default_factory=dict)
    """Tensors at which the slice begins, by key."""
    constants: dict[str, TensorProto] = field(default_factory=dict)
    """By their names in the models of the region."""
    prefix: list[Node] = field(default_factory=list)
    """Nodes of the source that both models begin with, in topological order."""
    before: list[Node] = field(default_factory=list)
    """The original nodes, with those between them, in topological order."""
    after: list[Node] = field(default_factory=list)
    """Nodes of the replacement, in topological order."""
    reads_weights: bool = False
    """Whether any large weight was read by value."""
    largest_new_constant: int = 0
    """The elements of the largest constant that the replacement holds and the source does not have."""
    substitutes: dict[str, str] = field(default_factory=dict)
    """Names that the replacement reads in place of tensors that were removed."""
    assumed_equal: set[TensorAddress] = field(default_factory=set)
    """Tensors assumed to be equal, which another site proves."""
    recomputed: list[Node] = field(default_factory=list)
    """Nodes of the source that produce some of the substitutes."""
    _names: dict[Key, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _own: set[str] = field(default_factory=set)
    _inside: set[Node] = field(default_factory=set)
    _reached: set[Node] = field(default_factory=set)
    _alike: ValueEquivalence = field(init=False)
    _follow: DataDependence = field(init=False)

    def __post_init__(self) -> None:
        region = self.region
        self._follow = DataDependence(self.origin, self.shapes, self._same)
        self._alike = ValueEquivalence(self.origin, self.key, self._follow.is_provable_node)
        self._own = {name for node in region.before for name in node.outputs if name}
        self._inside = set(region.before)
        self._inside.update(self._between())
        for node in (*self._inside, *region.after):
            self._taken.update(name for name in node.outputs if name)
        made = {self.key(node.scope, name) for node in self._inside for name in node.outputs if name}
        for scope, name in self._read_by_region():
            key = self.key(scope, name)
            if key not in made:
                self._reach(scope, name)
        for _ in range(DEPTH):
            alike = [*self._equal_inputs(), *self._regrouped()]
            if not alike:
                break
            for boundary in alike:
                self._go_back(boundary)
        for _ in range(self.depth):
            for boundary in [boundary for boundary in self.boundary_inputs.values() if self._follows(boundary)]:
                self._go_back(boundary)
        self.prefix = self._sorted(self._reached)
        self.before = self._sorted(self._inside)
        self.after = _in_order(region.after, lambda node: tuple(self.reads(node)))
        self._settle(made)

    def _settle(self, made: set[Key]) -> None:
        """Handle tensors that the replacement reads and that removed nodes lead to: by value, or recomputed.

        Such a tensor still exists: the replacements of other sites compute the same.
        """
        remade = {name for node in self.region.after for name in node.outputs}
        remade.update(old for old, _ in self.region.outputs)
        read = [(node.scope, name) for node in self.after for name in self.reads(node)]
        for scope, name in [*read, *((self.region.scope, new) for _, new in self.region.outputs)]:
            if name in remade or name in self.substitutes or self.key(scope, name) not in made:
                continue
            array = self.origin.index.constants.array(self.region.scope, name)
            if array is not None:
                self.substitutes[name] = self._fresh(name)
                self.constants[self.substitutes[name]] = encode(array)
            elif not self._repeat(scope, name):
                raise CannotSlice(f"the replacement reads {name!r}, which depends on removed nodes")

    def _repeat(self, scope: Scope, name: str) -> bool:
        """Give the replacement a tensor by nodes of the source; whether they all lie in one scope."""
        needed: set[Node] = set()
        waiting = [name]
        while waiting:
            found = self.origin.producer(scope, self._same(scope, waiting.pop()))
            if found is None or found[1] not in self._inside or found[1] in needed:
                continue
            needed.add(found[1])
            waiting += self.reads(found[1])
        if any(node.scope is not scope for node in needed):
            return False
        self.recomputed += [node for node in self.before if node in needed and node not in self.recomputed]
        for node in needed:
            self.substitutes.update(
                (made, self._fresh(made)) for made in node.outputs if made not in ("", *self.substitutes)
            )
        self.substitutes[name] = self.substitutes[self._same(scope, name)]
        return True

    @property
    def between(self) -> list[Node]:
        """Nodes of the source outside the region that read from it and that it reads."""
        own = set(self.region.before)
        return [node for node in self.before if node not in own]

    @property
    def grows(self) -> bool:
        """Whether a greater depth would go back further."""
        return any(self._follows(boundary) for boundary in self.boundary_inputs.values())

    @property
    def weights(self) -> int:
        """The bytes of weights that inputs represent, and that were not read."""
        return sum(boundary.size_in_bytes for boundary in self.boundary_inputs.values() if boundary.weight)

    @property
    def baked_weights(self) -> list[BoundaryInput]:
        """The weights from which constants of the replacement may be computed, of those that were not read.

        They are the weights of nodes that read only constants, which may be folded.  If there are none of these, a
        large new constant may come from any weight.
        """
        weights = {boundary.name: boundary for boundary in self.boundary_inputs.values() if boundary.weight}
        if not self.largest_new_constant or not weights:
            return []
        fixed, found = {*self.constants, *weights}, dict[str, BoundaryInput]()
        for node in (*self.prefix, *self.before):
            reads = [self.name(node.scope, name) for name in self.reads(node)]
            if fixed.issuperset(reads):
                fixed.update(self.name(node.scope, name) for name in node.outputs)
                found.update((name, weights[name]) for name in reads if name in weights)
        is_large = self.largest_new_constant > MAX_CONSTANT_ELEMENTS
        return list(found.values()) or (list(weights.values()) if is_large else [])

    def read_weights(self, weights: Iterable[BoundaryInput]) -> None:
        """Read weights that inputs represent, as constants."""
        for boundary in weights:
            array = self.origin.constants.array(self.origin.scope(boundary.scope), boundary.tensor)
            if array is not None:
                del self.boundary_inputs[self.key(boundary.scope, boundary.tensor)]
                self.constants[boundary.name] = encode(array)

    def sizes(self, name: str) -> Sequence[Size]:
        """The shape of an output of the region, stated by the source; empty if the rank is unknown."""
        return self.shapes.facts(self.origin.scope(self.region.scope), name).shape or ()

    def key(self, scope: Scope, name: str) -> Key:
        """The identity of a tensor as a scope of the source sees it; for a new tensor, in the scope of the region."""
        name = self._same(scope, name)
        home = self.origin.scope(scope).defining_scope(name)
        return (id(home if home is not None else self.origin.scope(self.region.scope)), name)

    def _same(self, scope: Scope, name: str) -> str:
        """The tensor that is read in place of another, as another site proves; tensors of the region stay."""
        return name if name in self._own else self.origin.substitute(scope, name, self.assumed_equal)

    def name(self, scope: Scope, name: str) -> str:
        """The name of a tensor in the region's models; nodes of the region keep their tensors' names."""
        return self._names.get(self.key(scope, name), self._same(scope, name))

    def _read_by_region(self) -> Iterator[tuple[Scope, str]]:
        """All tensors that the region's nodes read, and those that replaced its outputs."""
        region = self.region
        for node in sorted(self._inside, key=lambda item: item.source_slot):
            yield from ((node.scope, name) for name in self.reads(node))
        made = {name for node in region.after for name in node.outputs}
        for node in region.after:
            yield from ((node.scope, name) for name in self.reads(node) if name not in made)
        yield from ((region.scope, new) for _, new in region.outputs if new not in made)

    def _between(self) -> list[Node]:
        """Nodes of the source between nodes of the region, as for sizes of inner tensors."""
        found: list[Node] = []
        known: dict[Node, bool] = dict.fromkeys(self.region.before, True)

        def rests_on_region(scope: Scope, name: str, depth: int) -> bool:
            maker = self.origin.producer(scope, self._same(scope, name))
            if maker is None:
                return False
            home, node = maker
            if node not in known:
                known[node] = False  # also during the search, to end cycles
                if depth and self._is_copied(home, node, name):
                    behind = [rests_on_region(home, read, depth - 1) for read in self.reads(node)]
                    known[node] = any(behind)  # search all, because each may be between
                    found.extend([node] if known[node] else [])
            return known[node]

        for node in self.region.before:
            for name in self.reads(node):
                rests_on_region(node.scope, name, MAX_NODES)
        return found

    def _is_copied(self, home: Scope, node: Node, name: str) -> bool:
        """Whether a slice goes through a node: as `_leads_back`, or with a depth to tensors computed from integers."""
        is_near = self.shapes.facts(home, name).dtype in INTEGERS_AND_BOOL or node.op in TRANSPARENT
        further = INTEGERS_AND_BOOL if self.depth else frozenset()
        return self._follow.is_provable_node(node) and (is_near or self._follow.depends_only_on(home, name, further))

    def reads(self, node: Node) -> Iterator[str]:
        """The tensors that a node reads, its bodies included."""
        yield from (name for name in self.origin.inputs(node) if name)
        yield from self.captured(node)

    def captured(self, node: Node) -> Iterator[str]:
        """The tensors that a node's bodies read from outside."""
        if not node.original and any(item.type in GRAPHS for item in node.proto.attribute):
            yield from captured_names(node.proto)
        for own in self.origin.bodies(node):
            for inner in own.nodes:
                yield from (name for name in self.reads(inner) if not own.defines(name))
            yield from (name for name in own.output_names if name and not own.defines(name))

    def _reach(self, scope: Scope, name: str) -> None:
        """Classify a tensor: known already, a constant, the output of a node to include, or a boundary input."""
        waiting = [(scope, name)]
        while waiting:
            scope, name = waiting.pop()
            name = self._same(scope, name)
            key = self.key(scope, name)
            if key in self._names:
                continue
            self._names[key] = self._fresh(name)
            if self._take_constant(scope, name, key):
                continue
            boundary = self._boundary_input(scope, name, key)
            if boundary.value is None and self._leads_back(boundary):
                waiting += self._include(boundary)
            else:
                self.boundary_inputs[key] = boundary

    def _boundary_input(self, scope: Scope, name: str, key: Key) -> BoundaryInput:
        home = self.origin.scope(scope)
        facts = self.shapes.facts(home, name)
        value = self.shapes.value(home, name) if facts.dtype in INTEGERS_AND_BOOL else None
        if value is None and facts.dtype in INTEGERS_AND_BOOL:
            value = inferred_size(self.shapes, home, name)
        return BoundaryInput(
            self._names[key],
            scope,
            name,
            dtype=facts.dtype,
            shape=facts.shape,
            value=value,
            assumption=AssumedFacts.of_source(self.origin).at(home, name) or None,
        )

    def _go_back(self, boundary: BoundaryInput) -> None:
        """Include the producer of a boundary input in the models, if that is possible."""
        if self._may_go_back(boundary):
            self.boundary_inputs.pop(self.key(boundary.scope, boundary.tensor), None)
            for scope, name in self._include(boundary):
                self._reach(scope, name)

    def _include(self, boundary: BoundaryInput) -> list[tuple[Scope, str]]:
        found = self.origin.producer(boundary.scope, boundary.tensor)
        if found is None:
            raise CannotSlice(f"no node produces {boundary.tensor!r}")
        home, node = found
        if node in self._inside:
            raise CannotSlice(f"its input {boundary.tensor!r} is computed by the rewritten nodes")
        self._reached.add(node)
        for name in node.outputs:
            if name:
                self._names.setdefault((id(home), name), self._fresh(name))
                self.boundary_inputs.pop((id(home), name), None)
        return [(home, name) for name in self.reads(node)]

    def _leads_back(self, boundary: BoundaryInput) -> bool:
        """Whether a slice continues before a tensor: integers, copies, and tensors computed only from constants."""
        found = self.origin.producer(boundary.scope, boundary.tensor)
        if found is None or not self._may_go_back(boundary):
            return False
        return (
            boundary.dtype in INTEGERS_AND_BOOL
            or found[1].op in TRANSPARENT
            or self._follow.depends_only_on(boundary.scope, boundary.tensor)
        )

    def _follows(self, boundary: BoundaryInput) -> bool:
        """Whether a float tensor is computed only from integers: a mask, angles of positions, the root of a length."""
        # Data and embeddings of tokens are not: a proof only for the values that some node gives them proves little.
        return self._may_go_back(boundary) and self._follow.depends_only_on(
            boundary.scope, boundary.tensor, INTEGERS_AND_BOOL
        )

    def _may_go_back(self, boundary: BoundaryInput) -> bool:
        found = self.origin.producer(boundary.scope, boundary.tensor)
        return found is not None and len(self._reached) < MAX_NODES and self._follow.is_provable_node(found[1])

    def _equal_inputs(self) -> Iterator[BoundaryInput]:
        """Boundary inputs that hold the same values as another, produced by another node."""
        alike: dict[str, list[BoundaryInput]] = {}
        for boundary in self.boundary_inputs.values():
            found = self.origin.producer(boundary.scope, boundary.tensor)
            if found is not None and self._may_go_back(boundary):
                alike.setdefault(found[1].op, []).append(boundary)
        for boundaries in alike.values():
            for place, boundary in enumerate(boundaries):
                others = (other for at, other in enumerate(boundaries) if at != place)
                if any(self._alike.are_equal((boundary.scope, boundary.tensor), (x.scope, x.tensor)) for x in others):
                    yield boundary

    def _regrouped(self) -> list[BoundaryInput]:
        """Boundary inputs that hold the elements of another after reshapes, which rules look through."""
        boundaries = self.boundary_inputs.items()
        behind = {
            key: self.key(*source_before_reshapes(self.origin, boundary.scope, boundary.tensor))
            for key, boundary in boundaries
        }
        shared = Counter(behind.values())
        return [boundary for key, boundary in boundaries if behind[key] != key and shared[behind[key]] > 1]

    def _take_constant(self, scope: Scope, name: str, key: Key) -> bool:
        """Add a constant by its value; a large weight becomes a boundary input."""
        origin, home = self.origin, self.origin.scope(scope)
        if home.defining_scope(name) is None:
            tensor = scope.initializers.get(name)  # created for the replacement
            if tensor is None:
                raise CannotSlice(f"it reads {name!r}, which the original model does not have")
            self.constants[self._names[key]] = tensor
            self.largest_new_constant = max(self.largest_new_constant, math.prod(tensor.dims))
            return True
        if not origin.constants.is_constant(home, name):
            return False
        shape = origin.constants.shape(home, name)
        facts = self.shapes.facts(home, name)
        size = int(np.prod(shape)) if shape is not None else 0
        if (
            shape is not None
            and size > MAX_CONSTANT_ELEMENTS
            and facts.dtype not in EXACT_DTYPES
            and not self.real_weights
        ):
            self.boundary_inputs[key] = BoundaryInput(
                self._names[key], scope, name, dtype=facts.dtype, shape=shape, weight=True
            )
            return True
        array = origin.constants.array(home, name)
        if array is None:
            return False
        self.reads_weights = self.reads_weights or size > MAX_CONSTANT_ELEMENTS
        self.constants[self._names[key]] = encode(array)
        return True

    def _fresh(self, stem: str) -> str:
        name = unique_name(stem, self._taken)
        self._taken.add(name)
        return name

    def _sorted(self, nodes: Iterable[Node]) -> list[Node]:
        listed = sorted(nodes, key=lambda node: (len(node.scope.address), node.slot))
        return _in_order(listed, lambda node: tuple(self.reads(node)))


def _in_order(nodes: Sequence[Node], reads: Callable[[Node], tuple[str, ...]]) -> list[Node]:
    """Sort nodes topologically, depth first, otherwise in their order."""
    makers = {name: node for node in nodes for name in node.outputs if name}
    order = topological_order(nodes, lambda node: [makers[name] for name in reads(node) if name in makers])
    return list(nodes) if order is None else order
