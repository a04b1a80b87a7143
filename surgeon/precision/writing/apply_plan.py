"""Writing a plan into a model: Casts, attributes, stored values and stated dtypes."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from onnx import NodeProto, TensorProto, helper

from surgeon.file.tensors.casting import TensorCast, cast_array
from surgeon.file.tensors.decoding import raw_size
from surgeon.ir.scope import Node, Scope
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.ops.traits.dtype_traits import DTYPE_ATTRIBUTES, dtype_follows_input
from surgeon.ops.traversal import imports_of, nested_graphs, subgraphs
from surgeon.pipeline.editing.draft import ModelDraft, names_in
from surgeon.precision.analyses.dtype_graph import STORED, TensorKey, TypedTensor
from surgeon.precision.analyses.stored_tensors import FILL, as_tensor, held, lies_in_file, set_values, zero
from surgeon.precision.planning.dtype_plan import DtypePlan
from surgeon.runtime.sessions.float16_cast import float16_caster

_OPSET = 13  # opset of ai.onnx for the Casts of a model without ops of ai.onnx; every current runtime supports it
_TWICE = 4096  # bytes up to which a stored tensor that is needed in both dtypes is stored twice


class DtypeWriter:
    """Writes one plan into the draft of its graph.

    emulate_rounding: write no new dtypes, but a Cast there and back wherever a tensor would get the new one: the same
    rounding for a runtime with few kernels for it.  sentinel_bounds: the bounds at which stored numbers saturate.
    saturate: large weights saturate too.

    All steps share the names and dtypes of the tensors, so it has more than twelve attributes.
    """

    def __init__(
        self,
        plan: DtypePlan,
        sentinel_bounds: Mapping[TensorKey, tuple[float, float]],
        *,
        emulate_rounding: bool = False,
        saturate: bool = False,
    ) -> None:
        self.plan, self.sentinel_bounds = plan, sentinel_bounds
        self.emulate_rounding, self.saturate = emulate_rounding, saturate
        self.draft: ModelDraft = plan.dtype_graph.draft
        self.old, self.new = plan.dtype_graph.change.old, plan.dtype_graph.change.new
        self._by = float16_caster() if (self.old, self.new) == (TensorProto.FLOAT, TensorProto.FLOAT16) else None
        self.casts = 0
        self.slots: list[int | None] = []  # the former slot of each node of the main graph, once written
        self.recasts: list[tuple[TensorKey, TensorCast]] = []  # of stored tensors; ranges are known once written
        self.cast_stored: dict[TensorKey, TensorProto] = {}  # stored tensors that a Cast narrows at run time
        self._dtypes: dict[TensorKey, int] = {}
        self._names: dict[tuple[Scope, str, bool], str] = {}
        self._behind: dict[Scope, dict[int, list[NodeProto]]] = defaultdict(lambda: defaultdict(list))
        self._gone: set[Node] = set()
        self._taken = _taken(self.draft)

    def write(self) -> None:
        """Change the dtypes in the draft's skeleton; its index is invalid afterwards."""
        others = {id(wire): new for wire, new in self.plan.casts()}
        for wire in self.plan.dtype_graph.tensors.values():
            self._settle(wire, others.get(id(wire)))
        self._redirect()
        self._retype_nodes()
        self._retype_values()
        self._insert()
        self.draft.changed()

    def write_sentinels(self) -> None:
        """Change only the stored numbers that saturate."""
        for key in self.sentinel_bounds:
            wire = self.plan.dtype_graph.tensors[key]
            tensor = held(wire)
            if tensor is not None:
                set_values(tensor, self._saturated(wire, self.draft.value(tensor)))
        self.draft.changed()

    @property
    def dtypes(self) -> dict[str, int]:
        """The dtypes of changed tensors of the main graph, as written."""
        main = self.plan.dtype_graph.index.main
        return {name: dtype for (home, name), dtype in self._dtypes.items() if home is main}

    @property
    def sources(self) -> dict[str, str]:
        """The former names of tensors of the main graph that have new names, or copies in another dtype."""
        main = self.plan.dtype_graph.index.main
        return {made: name for (home, name, _), made in self._names.items() if home is main and made != name}

    # Tensors

    def _settle(self, wire: TypedTensor, other: bool | None) -> None:
        """Name a tensor in each dtype that it needs.

        other: whether the second dtype is the new one; None for one dtype.
        """
        is_new = self.plan.is_produced_new(wire)
        made = wire.name
        source = self.plan.dtype_graph.sources.get((wire.home, wire.name))
        if source is not None:
            self._settle_widened(wire, source)
            return
        if wire.maker == STORED:
            if is_new and self.emulate_rounding and self._is_rounded_late(wire):
                made = self._rounded_late(wire)
            elif is_new:
                self._convert(wire, wire.home.initializers.get(wire.name))
            elif other:
                self._names[wire.home, wire.name, True] = self._second(wire)
            self._names[wire.home, wire.name, is_new] = made
            self._dtypes[wire.home, made] = self._of(is_new)
            return
        slot = -1 if wire.node is None else wire.node.slot
        default = wire.home.initializers.get(wire.name)
        if default is not None and is_new and not self.emulate_rounding:  # the default of an optional input
            self._convert(wire, default)
        if self.emulate_rounding and is_new:
            made = self._pair(wire, slot)
        elif other is not None and self._is_end(wire, other):
            made = self._fresh(f"{wire.name}_{dtype_name(self._of(is_new))}")
            self._rename_made(wire, made)
        self._names[wire.home, wire.name, is_new] = made
        self._dtypes[wire.home, made] = self._of(is_new)
        if other is not None:
            name = wire.name if made != wire.name and not self.emulate_rounding else self._cast_name(wire, other)
            self._names[wire.home, wire.name, other] = name
            self._dtypes[wire.home, name] = self._of(other)
            self._cast(wire.home, slot, made, name, new=other)

    def _settle_widened(self, wire: TypedTensor, source: str) -> None:
        """Let consumers of the new dtype read the stored tensor, and remove the Cast if none is left."""
        assert wire.node is not None
        home = wire.home.defining_scope(source)
        assert home is not None
        self._names[wire.home, wire.name, False] = wire.name
        self._dtypes[wire.home, wire.name] = self.old
        self._names[wire.home, wire.name, True] = wire.name if self.emulate_rounding else source
        self._dtypes[home, source] = self.new
        if self.plan.is_produced_new(wire) and not self.emulate_rounding:
            self._gone.add(wire.node)

    def _is_rounded_late(self, wire: TypedTensor) -> bool:
        """Whether a stored tensor stays in its file and is rounded at run time.

        For float16 the converted model itself runs, with its own weights; for bfloat16 nothing else shows the loss.
        """
        tensor = held(wire)
        return tensor is not None and self.new == TensorProto.BFLOAT16 and lies_in_file(tensor)

    def _rounded_late(self, wire: TypedTensor) -> str:
        """Round a stored tensor by two Casts; return the result's name."""
        slot = -1 if wire.node is None else wire.node.slot
        half, back = self._fresh(f"{wire.name}_rounded"), self._fresh(f"{wire.name}_back")
        self._put(wire.home, slot, wire.name, half, dtype=self.new)
        self._put(wire.home, slot, half, back, dtype=self.old)
        return back

    def _is_end(self, wire: TypedTensor, other: bool) -> bool:
        """Whether a tensor is a model output that is needed in the other dtype: it keeps its name there."""
        ends = [use for use in wire.uses if use.node is None and use.scope is self.plan.dtype_graph.index.main]
        return wire.node is not None and any(self.plan.is_new(use.item) == other for use in ends)

    def _cast_name(self, wire: TypedTensor, new: bool) -> str:
        return self._fresh(f"{wire.name}_{dtype_name(self.new if new else self.old)}")

    def _pair(self, wire: TypedTensor, slot: int) -> str:
        """Round a tensor after its producer; the rounded one keeps the name, the other gets a new one."""
        if wire.node is None:
            return self._rounded_late(wire)
        half = self._fresh(f"{wire.name}_rounded")
        made = self._fresh(f"{wire.name}_exact")
        self._rename_made(wire, made)
        self._put(wire.home, slot, made, half, dtype=self.new)
        self._put(wire.home, slot, half, wire.name, dtype=self.old)
        return wire.name

    def _rename_made(self, wire: TypedTensor, name: str) -> None:
        assert wire.node is not None
        proto = wire.node.proto
        proto.output[list(proto.output).index(wire.name)] = name

    def _cast(self, scope: Scope, slot: int, source: str, name: str, *, new: bool) -> None:
        self.casts += 1
        if self.emulate_rounding and new:
            half = self._fresh(f"{name}_rounded")
            self._put(scope, slot, source, half, dtype=self.new)
            self._put(scope, slot, half, name, dtype=self.old)
        elif self.emulate_rounding:
            self._put(scope, slot, source, name, dtype=self.old)
        else:
            self._put(scope, slot, source, name, dtype=self._of(new))

    def _put(self, scope: Scope, slot: int, source: str, name: str, *, dtype: int) -> None:
        label = self._fresh(f"{name}/cast")
        self._behind[scope][slot].append(helper.make_node("Cast", [source], [name], label, to=dtype))

    def _of(self, new: bool) -> int:
        return self.new if new and not self.emulate_rounding else self.old

    def _fresh(self, name: str) -> str:
        found, number = name, 1
        while found in self._taken:
            found, number = f"{name}_{number}", number + 1
        self._taken.add(found)
        return found

    # Stored values

    def _second(self, wire: TypedTensor) -> str:
        """A stored tensor of the old dtype in the new one too: a copy, or a Cast if it is large."""
        tensor = wire.home.initializers.get(wire.name)
        name = self._fresh(f"{wire.name}_{dtype_name(self.new)}")
        is_large = tensor is not None and (raw_size(tensor) > _TWICE or tensor.data_location == TensorProto.EXTERNAL)
        if tensor is None or is_large:
            if tensor is not None:
                self.cast_stored[wire.home, wire.name] = tensor
            self._cast(wire.home, -1 if wire.node is None else wire.node.slot, wire.name, name, new=True)
            self._dtypes[wire.home, name] = self._of(True)
            return name
        copy = TensorProto()
        copy.CopyFrom(tensor)
        copy.name = name
        self._convert(wire, copy)
        self._store(wire.home, copy)
        self._dtypes[wire.home, name] = self._of(True)
        return name

    def _store(self, home: Scope, tensor: TensorProto) -> None:
        if home.parent is None:
            self.draft.store(tensor)
        else:
            proto: Any = home.proto
            proto.initializer.append(tensor)

    def _convert(self, wire: TypedTensor, tensor: TensorProto | None) -> None:
        """Convert a stored tensor to the new dtype, or round it."""
        tensor = held(wire) if tensor is None else tensor
        assert tensor is not None
        if lies_in_file(tensor):
            if not self.emulate_rounding:
                self._recast(wire, tensor)
            return
        values = self.draft.value(tensor)
        made = self._saturated(wire, values)
        if self.emulate_rounding:
            rounded = cast_array(made, self.new, self.saturate).astype(values.dtype)
            set_values(tensor, rounded)
            return
        set_values(tensor, made)
        self._recast(wire, tensor)

    def _recast(self, wire: TypedTensor, tensor: TensorProto) -> None:
        change = self.draft.recast(tensor, self.new, saturate=self.saturate, by=self._by)
        self.recasts.append(((wire.home, wire.name), change))

    def _saturated(self, wire: TypedTensor, values: Any) -> Any:
        """Replace mask fills and bounds beyond the new dtype by the nearest numbers with the same effect."""
        fill = self.sentinel_bounds.get((wire.home, wire.name))
        if fill is None:
            return values
        low, high = fill
        return np.where(np.isinf(values), values, np.clip(values, low, high)).astype(values.dtype)

    # Nodes

    def _redirect(self) -> None:
        """Let each consumer read the tensor in its dtype."""
        for wire in self.plan.dtype_graph.tensors.values():
            for use in wire.uses:
                name = self._names.get((wire.home, wire.name, self.plan.is_new(use.item)))
                if name is None or name == wire.name:
                    continue
                if use.node is not None:
                    use.node.proto.input[use.place] = name
                elif use.scope.is_function:
                    proto: Any = use.scope.proto
                    proto.output[use.place] = name
                elif use.scope.parent is not None:
                    proto = use.scope.proto
                    proto.output[use.place].name = name

    def _retype_nodes(self) -> None:
        """Update dtype attributes of nodes: the new dtype, or an explicit old one after a new input."""
        for node, ports in self.plan.dtype_graph.ports.items():
            known = DTYPE_ATTRIBUTES.get(node.op)
            if (
                known is None
                or not ports.following_outputs
                or (node.scope, node.outputs[0]) in self.plan.dtype_graph.sources
            ):
                continue
            proto, key = node.proto, known[0]
            item = node.attribute(key)
            if not self.plan.is_new(self.plan.dtype_graph.dtype_groups[node]):
                if known[1] is None and item is None and self._reads_new(node) and not dtype_follows_input(node.op):
                    proto.attribute.append(helper.make_attribute(key, self.plan.dtype_graph.change.old))
            elif key == FILL:
                self._retype_fill(node, as_tensor(proto) if item is not None else zero(proto, key))
            elif self.emulate_rounding:
                continue
            elif item is not None and item.i:
                item.i = self.new
            elif not dtype_follows_input(node.op):
                proto.attribute.append(helper.make_attribute(key, self.new))

    def _reads_new(self, node: Node) -> bool:
        """Whether the first input has the new dtype, as written."""
        name = node.inputs[0]
        home = node.scope.defining_scope(name)
        return home is not None and self._dtypes.get((home, name)) == self.new

    def _retype_fill(self, node: Node, tensor: TensorProto) -> None:
        """Convert the fill value of a node to the new dtype, or round it."""
        wire = self.plan.dtype_graph.tensors[node.scope, node.outputs[0]]
        set_values(tensor, self._saturated(wire, self.draft.value(tensor)))
        if not self.emulate_rounding:
            self.draft.recast(tensor, self.new, saturate=True)

    def _retype_values(self) -> None:
        """Update the stated dtypes of tensors."""
        for scope in self.plan.dtype_graph.scopes:
            proto: Any = scope.proto
            values = [*proto.value_info]
            if not scope.is_function:
                values += [*proto.input, *proto.output]
            for value in values:
                dtype = self._dtypes.get((scope, value.name))
                if dtype is None and (home := scope.defining_scope(value.name)) is not None:
                    dtype = self._dtypes.get((home, value.name))
                if dtype is not None and value.type.HasField("tensor_type"):
                    value.type.tensor_type.elem_type = dtype

    def _insert(self) -> None:
        """Insert the Casts after the producers of their inputs."""
        imported = imports_of(self.draft.skeleton.opset_import).get("") or _OPSET
        if self._behind and "" not in imports_of(self.draft.skeleton.opset_import):
            self.draft.skeleton.opset_import.add(domain="", version=imported)
        main = self.plan.dtype_graph.index.main
        self.slots = list(range(len(self.draft.graph.node)))
        gone = {(node.scope, node.slot) for node in self._gone}
        changed = {*self._behind, *(scope for scope, _ in gone)}
        for scope in sorted(changed, key=lambda scope: len(scope.address), reverse=True):  # inner ones first
            proto, behind = cast(Any, scope.proto), self._behind[scope]
            nodes = [*behind.get(-1, ())]
            slots: list[int | None] = [None for _ in nodes]
            for slot, node in enumerate(proto.node):
                copy = NodeProto()
                copy.CopyFrom(node)
                more = ([] if (scope, slot) in gone else [copy]), behind.get(slot, [])
                nodes += [*more[0], *more[1]]
                slots += [*(slot for _ in more[0]), *(None for _ in more[1])]
            if scope is main:
                self.slots = slots
            del proto.node[:]
            proto.node.extend(nodes)
            if scope.is_function and not any(item.domain in ("", "ai.onnx") for item in proto.opset_import):
                proto.opset_import.add(domain="", version=imported)


def _taken(draft: ModelDraft) -> set[str]:
    """All names of tensors and nodes in a model."""
    found: set[str] = set()
    for graph in nested_graphs(draft.graph):
        found.update(names_in(graph))
        found.update(node.name for node in graph.node)
    for function in draft.skeleton.functions:
        found.update((*function.input, *function.output))
        for node in function.node:
            found.update((*node.input, *node.output, node.name))
            for body in subgraphs(node):
                for graph in nested_graphs(body):
                    found.update(names_in(graph))
    return found
