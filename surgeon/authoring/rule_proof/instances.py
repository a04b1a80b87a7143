"""Builds instances: small concrete models whose graph is a pattern.

A `PatternVariant` (see `variants`) selects the forms of the pattern, `PatternArguments` give shapes and values to its
captures.  With an opset and a dtype they determine one model.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

from surgeon.authoring.rule_proof.dtype_assignment import DtypeAssignment
from surgeon.authoring.rule_proof.variants import PatternVariant
from surgeon.errors import ConditionFailed, RuleError
from surgeon.ops.builder.graph import fitted
from surgeon.ops.schemas import AttributeSpec, Schema, bind, schema
from surgeon.ops.schemas.argument_binding import missing
from surgeon.ops.schemas.attribute_values import attribute_proto
from surgeon.rules.matching.pattern import AnyOf, LiteralValue, NamedValue, NodeOutput, NodePattern, Pattern, Value, Var
from surgeon.runtime.function_inlining import IR_VERSION
from surgeon.runtime.quirks import windows_misfit

Shape = tuple[int | str, ...]

MIN_CONSTANT = 0.5  # constants lie in 0.5 .. 1.5: safe below a root, a logarithm and a division


class CannotInstantiate(Exception):
    """The pattern has no such instance: the opset lacks an op, or a dtype cannot hold a number.

    is_final: whether other shapes, values and dtypes do not help.
    """

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


@dataclass(eq=False, slots=True)
class Edge:
    """A tensor of an instance."""

    name: str
    """The tensor name; empty for a literal until it becomes an initializer."""
    array: np.ndarray[Any, Any] | None = None
    """The value of a literal."""
    is_parameter: bool = False
    """Whether the pattern captures the tensor."""
    is_constant: bool = False
    """Whether the tensor becomes an initializer."""


@dataclass(slots=True)
class InstanceNode:
    """A node of an instance before its tensors have dtypes."""

    domain: str
    """The domain, empty for ai.onnx."""
    op: str
    """The op type."""
    inputs: list[Edge | None]
    """The inputs; None for an omitted one."""
    outputs: list[Edge]
    """The outputs."""
    attributes: dict[str, Any]
    """The attribute values by name."""
    known: Schema | None
    """The schema; None for an unknown op."""


def build_instance(
    pattern: Pattern,
    variant: PatternVariant,
    opset: int,
    dtype: int,
    shapes: Mapping[str, Shape],
    values: Mapping[str, Any],
) -> onnx.ModelProto:
    """One model whose graph is the pattern.

    opset: of ai.onnx.  dtype: a TensorProto.DataType, used wherever the schemas allow it.  shapes: of captured tensors
    by name; a string is a symbol; captures annotated Constant become initializers, the others inputs.  values: of
    captured numbers, lists and strings.  Raises CannotInstantiate if no such model exists: the opset lacks an op, the
    dtype cannot hold a constant, or the ops refuse the shapes or attributes.
    """
    writer = _InstanceWriter(variant, opset, values)
    try:
        outputs = [writer.edge(value) for value in pattern.outputs]
    except RuleError as error:  # the opset lacks an op or a parameter
        raise CannotInstantiate(str(error), is_final=True) from error
    if len({id(item) for item in outputs}) < len(outputs) or any(item.is_parameter for item in outputs):
        raise CannotInstantiate("two outputs of the pattern are one tensor, or an output is an input", is_final=True)
    return _Assembly(writer, opset, dtype, shapes).model(outputs)


class _InstanceWriter:
    """Converts a pattern into nodes and edges; each operation and each capture once."""

    def __init__(self, variant: PatternVariant, opset: int, values: Mapping[str, Any]) -> None:
        self.variant, self.opset, self.values = variant, opset, values
        self.nodes: list[InstanceNode] = []
        self.edges: dict[str, Edge] = {}
        self.made: dict[int, list[Edge]] = {}
        self.versions: dict[str, int] = {"": opset}

    def edge(self, value: Value) -> Any:
        """The edge of a value; an array or a number for a constant; None for an omitted input."""
        if isinstance(value, NamedValue):
            return self.edge(value.value)
        if isinstance(value, AnyOf):
            return self.edge(value.forms[self.variant.forms.get(id(value), 0)])
        if isinstance(value, LiteralValue):
            return value.value
        if isinstance(value, NodeOutput):
            return self._outputs(value.operation)[value.position]
        return self._parameter(value)

    def _parameter(self, var: Var, name: str = "") -> Any:
        if var.is_any:
            raise CannotInstantiate("a wildcard has no values to generate", is_final=True)
        if var.name in self.variant.absent:
            return None
        if var.kind in ("scalar", "list"):
            return self.values.get(var.name)
        name = name or var.name
        if name not in self.edges:
            self.edges[name] = Edge(name, is_parameter=True, is_constant=var.kind == "constant")
        return self.edges[name]

    def _outputs(self, operation: NodePattern) -> list[Edge]:
        if id(operation) in self.made:
            return self.made[id(operation)]
        inputs = [None if item is None else self.edge(item) for item in operation.inputs]
        if operation.rest is not None:
            names = [f"{operation.rest.name}_{place}" for place in range(self.variant.rest)]
            inputs += [self._parameter(operation.rest, name) for name in names]
        attributes = {
            name: self.edge(item) if isinstance(item, Var) else item for name, item in operation.attributes.items()
        }
        domain, op = _concrete(operation.domain), operation.op.replace("*", "Any").replace("?", "A")
        placed = self._placed(operation, domain, op, inputs=inputs, attributes=attributes)
        number = len(self.nodes)
        placed.outputs.extend(Edge(f"{op}_{number}_{place}") for place in range(operation.outputs))
        self.nodes.append(placed)
        self.made[id(operation)] = placed.outputs
        return placed.outputs

    def _placed(
        self, operation: NodePattern, domain: str, op: str, inputs: list[Any], attributes: dict[str, Any]
    ) -> InstanceNode:
        newest = schema(domain, op, None)
        if newest is None:
            self.versions.setdefault(domain, 1)
            return InstanceNode(
                domain, op, [_wrapped(item) for item in inputs], outputs=[], attributes=attributes, known=None
            )
        version = self.versions.setdefault(domain, newest.since_version)
        known = schema(domain, op, version)
        if known is None:
            raise CannotInstantiate(missing(domain, op, version), is_final=True)
        asked = {"outputs": operation.outputs} if known.max_outputs > 1 else {}
        call = bind(domain, op, inputs, kwargs={**attributes, **asked}, opset=version)
        given = dict(call.attributes)
        for spec in known.attributes.values():
            if spec.required and given.get(spec.name) is None:
                given[spec.name] = attribute_values(spec)[0]
        return InstanceNode(
            domain, op, [_wrapped(item) for item in call.inputs], outputs=[], attributes=given, known=known
        )


def _concrete(domain: str) -> str:
    return "custom" if any(sign in domain for sign in "*?[") else domain


def _wrapped(item: Any) -> Edge | None:
    return item if item is None or isinstance(item, Edge) else Edge("", array=np.asarray(item))


def attribute_values(spec: AttributeSpec) -> list[Any]:
    """Values to try for an attribute, the schema's default first."""
    kind = onnx.AttributeProto
    default = spec.value.decode() if isinstance(spec.value, bytes) else spec.value
    integers = [-1, 0, 1, 2] if "axis" in spec.name else [0, 1] if default in (0, 1) else [1, 2]
    by_kind: dict[int, list[Any]] = {
        kind.FLOAT: [0.5, 1e-5, 2.0],
        kind.INT: integers,
        kind.STRING: ["constant"],
        kind.FLOATS: [[0.5], [0.5, 0.25]],
        kind.INTS: [[1], [0], [1, 1]],
        kind.TENSOR: [numpy_helper.from_array(np.asarray([1.0], dtype=np.float32))],
    }
    found = by_kind.get(spec.type, [])
    return [default, *(item for item in found if item != default)] if default is not None else found or [None]


class _Assembly:
    """Assigns dtypes and shapes to the nodes of a writer and builds the ModelProto."""

    def __init__(self, writer: _InstanceWriter, opset: int, dtype: int, shapes: Mapping[str, Shape]) -> None:
        self.writer, self.shapes = writer, shapes
        self.dtypes = DtypeAssignment(dtype)
        for node in writer.nodes:
            self.dtypes.add(node.known, node.op, node.attributes, inputs=node.inputs, outputs=node.outputs)
        self.constants: list[TensorProto] = []

    def model(self, outputs: list[Edge]) -> onnx.ModelProto:
        """The model with these outputs, their shapes inferred."""
        writer = self.writer
        for number, node in enumerate(writer.nodes):
            for place, edge in enumerate(node.inputs):
                if edge is not None and edge.array is not None and not edge.name:
                    edge.name = f"constant_{number}_{place}"
                    self._add_constant(edge, edge.array)
        for edge in writer.edges.values():
            if edge.is_constant:
                self._add_constant(edge, _sample(edge.name, self.shapes[edge.name], self.dtypes.of(edge)))
        inputs = [
            helper.make_tensor_value_info(edge.name, self.dtypes.of(edge), self.shapes[edge.name])
            for edge in writer.edges.values()
            if not edge.is_constant
        ]
        results = [helper.make_tensor_value_info(edge.name, self.dtypes.of(edge), None) for edge in outputs]
        graph = helper.make_graph(
            [self._node(number, node) for number, node in enumerate(writer.nodes)],
            "instance",
            inputs,
            outputs=results,
            initializer=self.constants,
        )
        imports = [helper.make_opsetid(domain, version) for domain, version in writer.versions.items()]
        return _shaped(helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION))

    def _add_constant(self, edge: Edge, array: np.ndarray[Any, Any]) -> None:
        dtype = helper.tensor_dtype_to_np_dtype(self.dtypes.of(edge))
        try:
            values = fitted(array, dtype) if array.dtype.kind in "biufc" else array
        except ConditionFailed as refusal:
            raise CannotInstantiate(str(refusal)) from refusal
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values).reshape(values.shape), edge.name))

    def _node(self, number: int, node: InstanceNode) -> onnx.NodeProto:
        made = onnx.NodeProto(
            op_type=node.op,
            domain=node.domain,
            name=f"{node.op}_{number}",
            input=["" if edge is None else edge.name for edge in node.inputs],
            output=[edge.name for edge in node.outputs],
        )
        for name, value in node.attributes.items():
            spec = node.known.attributes.get(name) if node.known is not None else None
            if value is not None:
                try:
                    made.attribute.append(attribute_proto(name, value, spec.type if spec else None))
                except (TypeError, ValueError) as error:
                    raise CannotInstantiate(f"attribute {name} of {node.op} cannot be {value!r}") from error
        return made


def _sample(name: str, shape: Shape, dtype: int) -> np.ndarray[Any, Any]:
    """Values of a constant: floats around 1, integers and booleans 0 and 1."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    kind = np.dtype(helper.tensor_dtype_to_np_dtype(dtype))
    sizes = tuple(int(size) for size in shape)
    if kind.kind in "biu":
        return random.integers(0, 2, sizes).astype(kind)
    if kind.kind in "OSU":
        return np.full(sizes, "a", dtype=object)
    return np.asarray(MIN_CONSTANT + random.random(sizes))


def _shaped(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the shapes of its outputs filled in.

    Raises CannotInstantiate if inference finds a contradiction.
    """
    if misfit := windows_misfit(model.graph):  # quirks.UNCHECKED_WINDOW_AXES
        raise CannotInstantiate(misfit)
    try:
        inferred = shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except (shape_inference.InferenceError, RuntimeError, ValueError) as error:
        raise CannotInstantiate(str(error).strip().splitlines()[-1]) from error
    del model.graph.output[:]
    model.graph.output.extend(inferred.graph.output)
    return model


def with_read_outputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with a consumer of every numeric output, whose result becomes the output.

    For rules that forward an input: a graph output has to keep its name.
    """
    found = onnx.ModelProto()
    found.CopyFrom(model)
    for number, value in enumerate(found.graph.output):
        if value.type.tensor_type.elem_type not in (TensorProto.BOOL, TensorProto.STRING):
            inner, value.name = value.name, f"read_{number}"
            found.graph.node.append(helper.make_node("Abs", [inner], [value.name], name=value.name))
    return found
