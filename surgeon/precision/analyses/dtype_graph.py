"""Producers and consumers of the tensors of the old dtype, in all graphs, bodies and functions of a model.

An item is a set of inputs and outputs that must have one dtype: those of a node, those of an If, Loop or Scan with the
inputs and outputs of its bodies, those of a local function with all of its calls.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from onnx import TensorProto

from surgeon.file.model import Address
from surgeon.ir.scope import Node, Scope, split_op
from surgeon.ops.schemas.node_check import infer_output_dtypes
from surgeon.ops.traits.dtype_traits import CAST
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.precision.planning.min_cut import SINK, SOURCE
from surgeon.precision.planning.node_dtypes import DtypeChange, NodeDtypes, is_determined_by_schema, node_dtypes
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.shapes.tensor_types import HALVES

TensorKey = tuple[Scope, str]
KnownDtypes = dict[tuple[Address, str], int | None]
"""Dtypes of the source's tensors, which are the same in each copy."""
STORED = -1
"""In place of a producing item: the tensor is stored, and can have either dtype."""
CAST_TO_FLOAT32 = "a Cast of the model already computes it in float32"
_MOVES = 8  # nodes between a stored tensor and a Cast of a part of it


class TensorUse(NamedTuple):
    """One reader of a tensor."""

    item: int
    """The item whose dtype the tensor must have for this reader."""
    scope: Scope
    """The scope of the reader."""
    node: Node | None
    """The node that reads it; None if it is an output of `scope`."""
    place: int
    """Index among the inputs of the node, or among the outputs of the scope."""


@dataclass(slots=True)
class TypedTensor:
    """A tensor of the old dtype."""

    home: Scope
    """The scope that defines it."""
    name: str
    """Its name there."""
    maker: int
    """The item whose dtype it has, or STORED."""
    node: Node | None = None
    """The node that produces it, if any."""
    uses: list[TensorUse] = field(default_factory=list)
    """Its readers."""


class DtypeGraph:
    """All tensors of the old dtype, with the items that need it.

    tensors: by the scope that defines a tensor, and its name.  ports, dtype_groups: the dtypes and the item of each
    node.  wanted: items for which the new dtype is worth a Cast.  keep_reasons: why items keep the old one.  sources:
    for a tensor that a Cast widens from a constant of the new dtype, or from a part of one, the input of that Cast.
    known_dtypes: dtypes that graphs of earlier copies found; this one adds its own.

    The search over the scopes fills all of these together, so it has more than twelve attributes.
    """

    def __init__(
        self,
        draft: ModelDraft,
        change: DtypeChange,
        io: Literal["keep", "convert"],
        known_dtypes: KnownDtypes | None = None,
    ) -> None:
        self.draft, self.change, self.index = draft, change, draft.index
        self._known_before: KnownDtypes = {} if known_dtypes is None else known_dtypes
        self.tensors: dict[TensorKey, TypedTensor] = {}
        self.ports: dict[Node, NodeDtypes] = {}
        self.dtype_groups: dict[Node, int] = {}
        self.count = 2
        self.wanted: set[int] = set()
        self.keep_reasons: dict[int, str] = {}
        self.sources: dict[TensorKey, str] = {}
        self._io = SOURCE if io == "keep" else SINK
        self._dtypes: dict[TensorKey, int | None] = {}
        self._ports: dict[Hashable, NodeDtypes] = {}  # by op, versions and dtypes
        self._inner: dict[Scope | None, ShapeInference] = {None: draft.shapes}
        self._items_of_functions: dict[Scope, int] = {}
        self._look_into(None)
        self.scopes = [scope for scope in self.index.scopes if scope.function in self._inner]
        for scope in self.scopes:
            self._add_makers(scope)
        self._keep_cast_islands()
        for scope in self.scopes:
            self._add_uses(scope)
        self._known_before.update(((scope.address, name), found) for (scope, name), found in self._dtypes.items())
        self._known_before = {}  # from now on the draft may change

    def dtype(self, scope: Scope, name: str) -> int | None:
        """The dtype of a tensor as the model has it now."""
        key = scope, name
        if key not in self._dtypes and (scope.address, name) in self._known_before:
            self._dtypes[key] = self._known_before[scope.address, name]
        if key not in self._dtypes:
            home, shapes = scope.defining_scope(name), self._inner.get(scope.function)
            found = None if home is None or shapes is None else shapes.facts(home, name).dtype
            maker = None if home is None else home.producers.get(name)
            if found is None and maker is not None:
                found = self._dtype_by_producer(maker, name)
            self._dtypes[key] = found
        return self._dtypes[key]

    def _dtype_by_producer(self, maker: Node, name: str) -> int | None:
        """The dtype of a tensor by its producer: an operator of a target, or a node after one."""
        known = {text: self.dtype(maker.scope, text) for text in maker.inputs if text}
        infer_output_dtypes(maker.proto, maker.scope.versions.get(split_op(maker.op)[0], 1), known)
        return known.get(name)

    def wire(self, scope: Scope, name: str) -> TypedTensor | None:
        """The tensor of a name in a scope, None if it has another dtype."""
        home = scope.defining_scope(name) if name else None
        return None if home is None else self.tensors.get((home, name))

    def nodes(self) -> Iterator[Node]:
        """All nodes, without those of functions that are never called."""
        for scope in self.scopes:
            yield from scope.nodes

    def _item(self) -> int:
        self.count += 1
        return self.count - 1

    def _look_into(self, function: Scope | None) -> None:
        """Find the types of each function's inputs from its first call; other calls give the old dtype for the same."""
        shapes = self._inner[function]
        for scope in self.index.scopes:
            if scope.function is not function:
                continue
            for node in scope.nodes:
                called = self.index.called(node)
                inner = None if called is None else shapes.for_call(node)
                if called is None or inner is None:
                    continue
                if called not in self._inner:
                    self._inner[called] = inner
                    self._items_of_functions[called] = self._item()
                    self._look_into(called)

    def _add_makers(self, scope: Scope) -> None:
        owner = scope.owner
        around = self._io if scope.parent is None else self.dtype_groups.get(owner, SOURCE) if owner else SOURCE
        if scope.is_function:
            around = self._items_of_functions[scope]
        stored = [name for name in scope.initializers if not self.index.is_overridable(scope, name)]
        is_loop = owner is not None and bool(traits_of(owner.op).control.trip_counts)
        counted = scope.input_names[:1] if is_loop else []
        for name in scope.inputs:
            if name not in stored:  # the first input of a Loop's body is the iteration number
                self._make(scope, name, SOURCE if name in counted else around)
        for name in stored:
            self._make(scope, name, STORED)
        for name in scope.sparse:
            self._make(scope, name, SOURCE)
        for node in scope.nodes:
            self._add_node(scope, node)

    def _add_node(self, scope: Scope, node: Node) -> None:
        called = self.index.called(node)
        ports = self.ports[node] = self._ports_of(scope, node, is_call=called is not None)
        shared = self._items_of_functions.get(called) if called is not None else None
        item = self.dtype_groups[node] = self._item() if shared is None else shared
        if called is not None and shared is None:
            self.keep_reasons[item] = "the dtypes that it passes to its function are unknown"
        elif ports.keep_reason:
            self.keep_reasons[item] = ports.keep_reason
        elif ports.benefits:
            self.wanted.add(item)
        is_stored = (node.op == "Constant" and not ports.keep_reason) or self._is_widened(scope, node, ports)
        for place in ports.following_outputs:
            self._make(scope, node.outputs[place], STORED if is_stored else item, node)
        for place in ports.fixed_outputs:
            self._make(scope, node.outputs[place], SOURCE, node)

    def _is_widened(self, scope: Scope, node: Node, ports: NodeDtypes) -> bool:
        """Whether a node is a Cast of a constant of the new dtype, as files store weights; noted in `sources`."""
        if node.op != CAST or not ports.following_outputs or self.dtype(scope, node.inputs[0]) != self.change.new:
            return False
        given, made = node.inputs[0], node.outputs[0]
        is_end = scope is self.index.main and made in scope.output_names
        if is_end or not self.change.narrows or not self._is_stored(scope, given):
            return False
        self.sources[scope, made] = given
        return True

    def _is_stored(self, scope: Scope, name: str) -> bool:
        """Whether a tensor is a constant, or a part of one, as rows of a table of weights."""
        home = scope.defining_scope(name)
        node = None if home is None else home.producers.get(name)
        for _ in range(_MOVES):
            if home is None or node is None or self.index.constants.is_constant(home, name):
                break
            facts = traits_of(node.op)
            if facts.data.copies_elements != (0,) or facts.control.has_bodies or len(node.outputs) != 1:
                break
            name = node.inputs[0]
            home = home.defining_scope(name)
            node = None if home is None else home.producers.get(name)
        return home is not None and self.index.constants.is_constant(home, name)

    def _ports_of(self, scope: Scope, node: Node, *, is_call: bool) -> NodeDtypes:
        """The dtypes of a node: equal for nodes of one op, version and dtypes, unless attributes matter."""

        def dtype(name: str) -> int | None:
            return self.dtype(scope, name) if name else 0  # an omitted input is not an unknown one

        if is_call or not is_determined_by_schema(node):
            return node_dtypes(node, dtype, self.change, is_call=is_call)
        key = node.op, id(scope.versions), (*map(dtype, node.inputs),), (*map(dtype, node.outputs),)
        found = self._ports.get(key)
        if found is None:
            found = self._ports[key] = node_dtypes(node, dtype, self.change)
        return found

    def _make(self, scope: Scope, name: str, maker: int, node: Node | None = None) -> None:
        if self.dtype(scope, name) == self.change.old:
            self.tensors[scope, name] = TypedTensor(scope, name, maker, node)

    def _add_uses(self, scope: Scope) -> None:
        for node in scope.nodes:
            ports, item = self.ports[node], self.dtype_groups[node]
            for places, user in ((ports.following_inputs, item), (ports.fixed_inputs, SOURCE)):
                for place in places:
                    self._use(scope, node.inputs[place], TensorUse(user, scope, node, place))
        end = self._io
        if scope.parent is not None:
            end = self.dtype_groups.get(scope.owner, SOURCE) if scope.owner is not None else SOURCE
        elif scope.is_function:
            end = self._items_of_functions[scope]
        for place, name in enumerate(scope.output_names):
            self._use(scope, name, TensorUse(end, scope, None, place))

    def _use(self, scope: Scope, name: str, use: TensorUse) -> None:
        wire = self.wire(scope, name)
        if wire is not None:
            wire.uses.append(use)

    def _keep_cast_islands(self) -> None:
        """Keep nodes that a model of mixed precision already computes in the old dtype by its own Casts.

        A Cast of a constant, or of rows of one, is about how a weight is stored, not about the dtype of the
        computation.
        """
        if self.change.new not in HALVES or self.change.old != TensorProto.FLOAT:
            return
        lifted: set[TensorKey] = set()
        for node in self.nodes():
            scope, ports = node.scope, self.ports[node]
            homes = [(home, name) for name in node.inputs if name and (home := scope.defining_scope(name)) is not None]
            is_half = (home for home in homes if node.op == CAST and self.dtype(*home) in HALVES)
            is_up = not all(self._is_stored(*home) for home in is_half)
            if (is_up or any(home in lifted for home in homes)) and (ports.following_outputs or ports.following_inputs):
                self.keep_reasons.setdefault(self.dtype_groups[node], CAST_TO_FLOAT32)
                lifted.update(
                    (scope, node.outputs[place]) for place in (*ports.following_outputs, *ports.fixed_outputs)
                )
