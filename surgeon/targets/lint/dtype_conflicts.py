"""The dtypes of a model's tensors as nodes compute them, and nodes whose input dtypes conflict.

One pass in order over each scope, because onnx's inference says nothing of a node whose inputs conflict, nor of later
ones.  Such a node is reported and gets the dtype of its inputs that are not constants, so that one pass finds all.
Inside of functions dtypes are unknown.
"""

from collections.abc import Iterator
from typing import Any

from onnx import NodeProto

from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope, split_op
from surgeon.ops.schemas import Schema, infer_output_dtypes, schema
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.ops.traits.trait_lookup import WITH_BODIES
from surgeon.printed_commands import command
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.targets.lint.finding import DiagnosticCollector, node_path

# Dtypes of constants, and those that `surgeon convert` gives them in all of a model.
CONVERTIBLE = {"float16": ("float32", "float64"), "float32": ("float64", "float16", "bfloat16")}


class InferredDtypes:
    """The dtype of each tensor, `TensorProto.DataType` by scope and name; None if unknown."""

    def __init__(self, index: Index, shapes: ShapeInference, found: DiagnosticCollector) -> None:
        self._index, self._shapes, self._found = index, shapes, found
        self._known: dict[tuple[int, str], int | None] = {}
        self.clashing: set[Node] = set()
        scopes = [scope for scope in index.scopes if scope.function is None]
        for scope in scopes:
            for node in scope.nodes:
                self._learn(node)
        for scope in scopes if not self.clashing else ():  # later conflicts follow from the first
            self._compare(scope)

    def dtype(self, scope: Scope, name: str) -> int | None:
        """The dtype of a tensor, seen from a scope."""
        home = scope.defining_scope(name) if name else None
        if home is None or home.function is not None:
            return None
        key = id(home), name
        if key not in self._known:
            self._known[key] = self._shapes.facts(home, name).dtype
        return self._known[key]

    def node_dtypes(self, node: Node) -> dict[str, int | None]:
        """The dtypes of a node's inputs and outputs, by name."""
        return {name: self.dtype(node.scope, name) for name in (*node.inputs, *node.outputs) if name}

    def _learn(self, node: Node) -> None:
        scope = node.scope
        version = _schema_of(node)
        wanted = None if version is None else self._clash(node, version)
        known: dict[str, int | None] = {name: self.dtype(scope, name) for name in node.inputs if name}
        if wanted is not None and version is not None:
            self.clashing.add(node)
            first = version.input_at(0)
            for place, name in enumerate(node.outputs):
                formal = version.output_at(place)
                if name and formal is not None and first is not None and formal.type == first.type:
                    known[name] = wanted
        if version is not None and node.op not in WITH_BODIES and node.op != "Constant":
            infer_output_dtypes(node.proto, scope.versions.get(split_op(node.op)[0], 1), known)
        for name in filter(None, node.outputs):
            if known.get(name):
                self._known[id(scope), name] = known[name]

    def _compare(self, scope: Scope) -> None:
        """Report tensors whose declared dtype differs from the computed one; runtimes refuse such a model."""
        proto: Any = scope.proto
        for value in (*proto.value_info, *proto.output):
            stated, made = value.type.tensor_type.elem_type, self._known.get((id(scope), value.name))
            node = scope.producers.get(value.name)
            if stated and made and node is not None and stated != made:
                kinds = f"{dtype_name(stated)}, but the node produces {dtype_name(made)}"
                help_ = f"declare {dtype_name(made)}, or add a Cast after it"
                at = f"{node_path(node)} ({value.name!r})"
                self._found.add("dtype", op_text(node), f"the graph declares {kinds}", at=at, node=node, helps=[help_])

    def _clash(self, node: Node, version: Schema) -> int | None:
        """The dtype that a node's inputs should have if they conflict, None if they do not."""
        for formal, given in _by_variable(node, version).items():
            typed = [(name, self.dtype(node.scope, name)) for name in given]
            dtypes = [(name, dtype) for name, dtype in typed if dtype]
            if len({dtype for _, dtype in dtypes}) > 1:
                return self._tell(node, formal, dtypes)
        return None

    def _tell(self, node: Node, variable: str, dtypes: list[tuple[str, int]]) -> int:
        constants = self._index.constants
        fixed = [item for item in dtypes if constants.is_constant(node.scope, item[0])]
        flowing = [item for item in dtypes if item not in fixed] or dtypes[:1]
        wanted = flowing[0][1]
        odd = [(name, dtype) for name, dtype in dtypes if dtype != wanted]
        kinds = dict.fromkeys(dtype_name(dtype) for _, dtype in odd)
        are_constants = all(item in fixed for item in odd)
        target, other = dtype_name(wanted), " and ".join(kinds)
        rest = f"of dtype {other}, but its inputs of type {variable} must have one dtype"
        together = ""
        if are_constants:
            reason = f"it mixes {target} with {'constants' if len(odd) > 1 else 'a constant'} {rest}"
            together = f"it mixes {target} with constants {rest}"
            helps = [f"convert the constant to {target}: values.astype(np.{target})"]
            if other in CONVERTIBLE.get(target, ()):
                convert = command("convert", "IN", "OUT", "--from", other, "--to", target)
                helps.insert(0, f"convert all {other} tensors to {target}: {convert}")
        else:
            reason = f"it mixes {target} with {rest.removeprefix('of dtype ')}"
            helps = [f"cast the {other} input to {target}"]
        at = f"{node_path(node)} ({', '.join(f'{name!r} {dtype_name(dtype)}' for name, dtype in dtypes)})"
        self._found.add("dtype", op_text(node), reason, at=at, node=node, helps=helps, together=together)
        return wanted


def op_text(node: Node | NodeProto) -> str:
    """The op of a node with its domain, ai.onnx for the default."""
    domain, name = split_op(node.op) if isinstance(node, Node) else (node.domain, node.op_type)
    return f"{domain or 'ai.onnx'}::{name}"


def _schema_of(node: Node) -> Schema | None:
    domain, name = split_op(node.op)
    return schema(domain, name, node.scope.versions.get(domain))


def _by_variable(node: Node, version: Schema) -> dict[str, list[str]]:
    """A node's inputs by the type variable that they share, without those that may be of several types."""
    found: dict[str, list[str]] = {}
    for name, formal in _formals(node, version):
        if formal in version.types:
            found.setdefault(formal, []).append(name)
    return found


def _formals(node: Node, version: Schema) -> Iterator[tuple[str, str]]:
    for place, name in enumerate(node.inputs):
        formal = version.input_at(place)
        if name and formal is not None and formal.homogeneous:
            yield name, formal.type
