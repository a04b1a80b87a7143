"""Strict typing: whether every input and output of a node has a dtype that its schema allows.

A checker with partial inference skips unknown dtypes, and ONNX Runtime inserts missing Casts; a strongly typed network
does neither.  Here dtypes follow only from the inputs and weights, and stated dtypes of inner tensors are compared with
them.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from onnx import AttributeProto, TensorProto

from surgeon.file.model import Model
from surgeon.ir.scope import Node, Scope, split_op
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.ops.schemas.node_check import check_node, infer_output_dtypes
from surgeon.ops.traits.dtype_traits import DTYPE_ATTRIBUTES, SEQUENCE_LOOPS
from surgeon.ops.traits.trait_lookup import LOOPS, SCANS, WITH_BODIES
from surgeon.pipeline.editing.draft import ModelDraft

Dtypes = list[int | None]
_OF_CONSTANTS = {
    "value_float": TensorProto.FLOAT,
    "value_floats": TensorProto.FLOAT,
    "value_int": TensorProto.INT64,
    "value_ints": TensorProto.INT64,
    "value_string": TensorProto.STRING,
    "value_strings": TensorProto.STRING,
}


def type_errors(model: Model) -> list[str]:
    """The type errors of a model, one sentence each; empty if it is well typed.

    Raises GraphError for a model that breaks ONNX's rules.
    """
    return list(dict.fromkeys(_Typing(ModelDraft(model)).whole()))


class _Typing:
    """One pass in topological order, through bodies and called functions."""

    def __init__(self, draft: ModelDraft) -> None:
        self._index = draft.index
        self._known: dict[tuple[Scope, str], int | None] = {}
        self._right: dict[Hashable, Dtypes] = {}  # outputs of a correct node, by its content
        self._calls: dict[tuple[Scope, tuple[int | None, ...]], Dtypes] = {}

    def whole(self) -> Iterator[str]:
        """The errors as sentences."""
        main = self._index.main
        graph: Any = main.proto
        for value in graph.input:
            self._known[main, value.name] = value.type.tensor_type.elem_type or None
        yield from self._scope(main)

    def _of(self, scope: Scope, name: str) -> int | None:
        home = scope.defining_scope(name) if name else None
        return None if home is None else self._known.get((home, name))

    def _scope(self, scope: Scope) -> Iterator[str]:
        proto: Any = scope.proto
        for tensor in scope.initializers.values():
            self._known[scope, tensor.name] = tensor.data_type
        for name, sparse in scope.sparse.items():
            self._known[scope, name] = sparse.values.data_type
        for node in scope.nodes:
            yield from self._node(scope, node)
        stated = list(proto.value_info) + ([] if scope.is_function else list(proto.output))
        for value in stated:
            stated, made = value.type.tensor_type.elem_type, self._of(scope, value.name)
            if stated and made and stated != made:
                yield f"{value.name!r} is declared as {dtype_name(stated)}, but computed as {dtype_name(made)}."

    def _node(self, scope: Scope, node: Node) -> Iterator[str]:
        bodies = [body for body in scope.bodies if body.owner is node]
        called = self._index.called(node)
        made: Dtypes
        if called is not None:
            made = []
            yield from self._call(scope, node, called, made)
        elif bodies and node.op in WITH_BODIES - SEQUENCE_LOOPS:
            made = []
            yield from self._with_bodies(scope, node, bodies, made)
        else:
            made = []
            yield from self._plain(scope, node, made)
        for name, dtype in zip(node.outputs, made, strict=False):
            self._known[scope, name] = dtype

    def _plain(self, scope: Scope, node: Node, made: Dtypes) -> Iterator[str]:
        """A plain node; a node equal to a correct one is correct."""
        opset, in_function = scope.versions.get(split_op(node.op)[0], 1), scope.function is not None
        given = [self._of(scope, name) for name in node.inputs]
        key: Hashable = None
        if node.op != "Constant":  # its attribute may be large
            attributes = b"".join(item.SerializeToString() for item in node.proto.attribute)
            has = (*map(bool, node.inputs), None, *map(bool, node.outputs))
            key = node.op, opset, in_function, (*given,), has, attributes
        known = self._right.get(key)
        if known is not None:
            made += known
            return
        made += self._by_schema(scope, node, opset)
        around = dict(zip(node.outputs, made, strict=False)) | dict(zip(node.inputs, given, strict=True))
        is_right = True
        for sentence in check_node(node.proto, opset, around.get, in_function):
            is_right = False
            yield f"{node.label!r}: {sentence}"
        if is_right and key is not None:
            self._right[key] = list(made)

    def _by_schema(self, scope: Scope, node: Node, opset: int) -> Dtypes:
        known_attribute = DTYPE_ATTRIBUTES.get(node.op)
        if node.op == "Constant":
            return [_of_constant(item) for item in node.proto.attribute][:1]
        if known_attribute is not None:
            item = node.attribute(known_attribute[0])
            says = None if item is None else item.t.data_type if item.type == AttributeProto.TENSOR else item.i
            if says or known_attribute[1]:
                return [says or known_attribute[1]]
        known = {name: self._of(scope, name) for name in node.inputs if name}
        infer_output_dtypes(node.proto, opset, known)
        return [known.get(name) for name in node.outputs]

    def _call(self, scope: Scope, node: Node, called: Scope, made: Dtypes) -> Iterator[str]:
        function: Any = called.proto
        given = tuple(self._of(scope, name) for name in node.inputs)
        key = called, given
        if key not in self._calls:
            for name in function.input:
                self._known.pop((called, name), None)
            self._known.update(((called, name), dtype) for name, dtype in zip(function.input, given, strict=False))
            yield from self._scope(called)
            self._calls[key] = [self._of(called, name) for name in function.output]
        made += self._calls[key]

    def _with_bodies(self, scope: Scope, node: Node, bodies: Sequence[Scope], made: Dtypes) -> Iterator[str]:
        """A node with bodies; `made` receives its output dtypes."""
        given = [self._of(scope, name) for name in node.inputs]
        ends: list[Dtypes] = []
        for body in bodies:
            proto: Any = body.proto
            starts = [TensorProto.INT64, TensorProto.BOOL, *given[2:]] if node.op in LOOPS else given
            for value, dtype in zip(proto.input, starts, strict=False):
                self._known[body, value.name] = dtype
                stated = value.type.tensor_type.elem_type
                if stated and dtype and stated != dtype:
                    yield f"{value.name!r} is declared as {dtype_name(stated)}, but receives {dtype_name(dtype)}."
            yield from self._scope(body)
            ends.append([self._of(body, value.name) for value in proto.output])
        first = ends[0][1:] if node.op in LOOPS else ends[0]
        if node.op in LOOPS:
            others = [given[2:]]
        elif node.op in SCANS:
            count = next((item.i for item in node.proto.attribute if item.name == "num_scan_inputs"), 0)
            others = [given[: max(len(given) - count, 0)]]
        else:
            others = ends[1:]
        for other in others:
            for place, (one, two) in enumerate(zip(first, other, strict=False)):
                if one and two and one != two:
                    ways = f"{dtype_name(one)} or {dtype_name(two)}"
                    yield f"{node.label!r}: output {place} is {ways}, depending on the path."
        made += first


def _of_constant(item: AttributeProto) -> int | None:
    if item.name == "sparse_value":
        return int(item.sparse_tensor.values.data_type)
    return int(item.t.data_type) if item.name == "value" else _OF_CONSTANTS.get(item.name)
