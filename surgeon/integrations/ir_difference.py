"""Turns an `onnx_ir.Model` into a rewritten one in place; unchanged objects stay.

Two serialised models are compared.  A node with equal bytes stays, with its values and its `meta`; the others are made
by onnx_ir in a graph whose inputs are then replaced by the values that they read.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import onnx
import onnx_ir as ir
from onnx import GraphProto, NodeProto, ValueInfoProto

TensorOf: TypeAlias = Callable[[Any], Any]
Values: TypeAlias = dict[str, ir.Value]
Body: TypeAlias = tuple[ir.Graph, GraphProto, GraphProto]
_QUANTIZATION = "quant_parameter_tensor_names"  # the key at which onnx_ir keeps the annotation of a value
MODEL_FIELDS = "ir_version", "producer_name", "producer_version", "domain", "model_version", "doc_string"


def apply_difference(model: ir.Model, before: onnx.ModelProto, after: onnx.ModelProto, tensor_of: TensorOf) -> None:
    """Turn a model into `after`.

    before: the model as it is, serialised.  tensor_of: the tensor that another one refers to, if it does.
    """
    for name in MODEL_FIELDS:
        if getattr(before, name) != getattr(after, name):
            setattr(model, name, getattr(after, name))
    _set(model.metadata_props, before.metadata_props, after.metadata_props)
    _update((model.graph, before.graph, after.graph), tensor_of, {})
    opsets = {item.domain: item.version for item in after.opset_import}
    if opsets != model.graph.opset_imports:
        model.graph.opset_imports.clear()
        model.graph.opset_imports.update(opsets)
    known = {_identifier(item): item.SerializeToString() for item in before.functions}
    for gone in known.keys() - {_identifier(item) for item in after.functions}:
        del model.functions[gone]
    for item in after.functions:
        if known.get(_identifier(item)) != item.SerializeToString():
            made = ir.serde.deserialize_function(item)
            fill(made, tensor_of)
            model.functions[_identifier(item)] = made


def _identifier(function: onnx.FunctionProto) -> tuple[str, str, str]:
    return function.domain, function.name, function.overload


def _set(props: dict[str, str], before: Sequence[Any], after: Sequence[Any]) -> None:
    """Change metadata as they were changed."""
    old, new = ({item.key: item.value for item in items} for items in (before, after))
    if old != new:
        props.clear()
        props.update(new)


def _update(body: Body, tensor_of: TensorOf, outer: Values) -> None:
    """Turn a graph, serialised as the first, into the second.  outer: the values of the graphs around it, by name."""
    graph, before, after = body
    olds = list(graph)
    earlier = [*graph.inputs, *graph.initializers.values(), *_outputs(olds)]
    stays: dict[bytes, deque[ir.Node]] = defaultdict(deque)
    for proto, node in zip(before.node, olds, strict=True):
        stays[proto.SerializeToString()].append(node)
    kept: list[ir.Node | None] = [_next(stays.get(proto.SerializeToString())) for proto in after.node]
    inner = list(_changed_bodies(before.node, olds, after.node, kept))
    values = {**outer, **_stored(graph, before, after, tensor_of), **_named(_outputs(kept))}
    fresh = [proto for proto, node in zip(after.node, kept, strict=True) if node is None]
    made = _made(fresh, after, values)
    _fill(made, tensor_of)
    values.update(_named(_outputs(made)))
    ends = [values[info.name] for info in after.output]
    if not _are_same(ends, graph.outputs):
        graph.outputs[:] = ends
    for value in earlier:
        new = values.get(value.name or "", value)
        if new is not value:
            value.replace_all_uses_with(new)
    supply = iter(made)
    final = [next(supply) if node is None else node for node in kept]
    _detach(set(olds).difference(final))
    if not _are_same(final, olds):
        graph.remove(olds)
        graph.extend(final)
    _describe(graph, before, after, values)
    for one in inner:
        _update(one, tensor_of, values)


def _next(nodes: deque[ir.Node] | None) -> ir.Node | None:
    """The first of some nodes with equal bytes, which is taken."""
    return nodes.popleft() if nodes else None


def _outputs(nodes: Iterable[ir.Node | None]) -> Iterator[ir.Value]:
    return (value for node in nodes if node is not None for value in node.outputs)


def _named(values: Iterable[ir.Value]) -> Values:
    return {value.name: value for value in values if value.name}


def _are_same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two lists have the same objects."""
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _changed_bodies(
    before: Sequence[NodeProto], olds: Sequence[ir.Node], after: Sequence[NodeProto], kept: list[ir.Node | None]
) -> Iterator[Body]:
    """The bodies that changed in nodes that did not; these nodes are kept."""
    stays = set(kept)
    shells = {_shell(proto): (proto, node) for proto, node in zip(before, olds, strict=True) if node not in stays}
    for place, proto in enumerate(after):
        old, node = shells.pop(_shell(proto), (None, None)) if kept[place] is None else (None, None)
        if old is None or node is None or not any(item.HasField("g") for item in proto.attribute):
            continue
        kept[place] = node
        for one, other in zip(old.attribute, proto.attribute, strict=True):
            if one.HasField("g") and one != other:
                yield node.attributes[one.name].as_graph(), one.g, other.g


def _shell(proto: NodeProto) -> bytes:
    """The bytes of a node without its bodies."""
    copy = NodeProto()
    copy.CopyFrom(proto)
    for item in copy.attribute:
        item.ClearField("g")
    return bytes(copy.SerializeToString())


def _stored(graph: ir.Graph, before: GraphProto, after: GraphProto, tensor_of: TensorOf) -> Values:
    """The inputs and initializers of a graph by name, once they are those of `after`."""
    known = {info.name: info for info in before.input}
    old = _named(graph.inputs)
    inputs = [old.get(info.name) or ir.Value(name=info.name) for info in after.input]
    for info, value in zip(after.input, inputs, strict=True):
        if known.get(info.name) != info:
            ir.serde.deserialize_value_info_proto(info, value)
    if not _are_same(inputs, graph.inputs):
        graph.inputs[:] = inputs
    values, tensors = _named(inputs), {tensor.name: tensor for tensor in before.initializer}
    for name in tensors.keys() - {tensor.name for tensor in after.initializer}:
        del graph.initializers[name]
    for proto in after.initializer:
        value = graph.initializers.get(proto.name) or values.get(proto.name) or ir.Value(name=proto.name)
        if tensors.get(proto.name) != proto:
            value.const_value = tensor_of(ir.serde.deserialize_tensor(proto))
            value.shape, value.type = ir.Shape(proto.dims), ir.TensorType(ir.DataType(proto.data_type))
            graph.initializers[proto.name] = value
    order = {tensor.name: None for tensor in after.initializer}
    if [name for name in graph.initializers if name in order] != list(order):
        for name in order:
            graph.initializers.add(graph.initializers.pop(name))
    return {**values, **graph.initializers}


def _made(fresh: Sequence[NodeProto], after: GraphProto, values: Values) -> list[ir.Node]:
    """New nodes, which read these values."""
    if not fresh:
        return []
    names = {name for proto in fresh for name in proto.output}
    infos = [info for info in (*after.value_info, *after.output) if info.name in names]
    read = sorted({name for name in _read(fresh) if name in values} - names)
    holder = GraphProto(node=fresh, value_info=infos, input=[ValueInfoProto(name=name) for name in read])
    graph = ir.serde.deserialize_graph(holder)
    made = list(graph)
    graph.remove(made)
    for value in graph.inputs:
        value.replace_all_uses_with(values[value.name or ""])
    return made


def _read(nodes: Iterable[NodeProto]) -> Iterator[str]:
    """The names that nodes and their bodies read."""
    for node in nodes:
        yield from node.input
        for item in node.attribute:
            for graph in (item.g, *item.graphs):
                yield from _read(graph.node)


def fill(graph: ir.Graph | ir.Function, tensor_of: TensorOf) -> None:
    """Replace references in a new graph by the tensors that they refer to."""
    for stored in () if isinstance(graph, ir.Function) else graph.initializers.values():
        stored.const_value = tensor_of(stored.const_value)
    _fill(graph, tensor_of)


def _fill(nodes: Iterable[ir.Node], tensor_of: TensorOf) -> None:
    """The same for new nodes."""
    for node in nodes:
        for name, attribute in list(node.attributes.items()):
            if attribute.is_ref():
                continue
            kind, value = attribute.type, attribute.value
            if kind in (ir.AttributeType.TENSOR, ir.AttributeType.TENSORS):
                new: Any = tensor_of(value) if kind == ir.AttributeType.TENSOR else [tensor_of(one) for one in value]
                node.attributes[name] = ir.Attr(name, kind, new, attribute.doc_string)
            for graph in value if kind == ir.AttributeType.GRAPHS else [value] * (kind == ir.AttributeType.GRAPH):
                fill(graph, tensor_of)


def _detach(gone: Iterable[ir.Node]) -> None:
    """Let removed nodes, and those of their bodies, read nothing any more."""
    for node in gone:
        for place in range(len(node.inputs)):
            node.replace_input_with(place, None)
        for attribute in node.attributes.values():
            if not attribute.is_ref() and attribute.type == ir.AttributeType.GRAPH:
                _detach(attribute.as_graph())


def _describe(graph: ir.Graph, before: GraphProto, after: GraphProto, values: Values) -> None:
    """Change names, types, shapes and annotations as they were changed."""
    for name in ("name", "doc_string"):
        if getattr(before, name) != getattr(after, name):
            setattr(graph, name, getattr(after, name))
    _set(graph.metadata_props, before.metadata_props, after.metadata_props)
    known = {info.name: info for info in (*before.input, *before.value_info, *before.output)}
    infos = {info.name: info for info in (*after.input, *after.value_info, *after.output)}
    for name, info in infos.items():
        if name in values and known.get(name) != info:
            ir.serde.deserialize_value_info_proto(info, values[name])
    for info in (*before.value_info, *before.output):
        if info.name not in infos and info.name in values and values[info.name].producer() is not None:
            values[info.name].type = values[info.name].shape = None
    old, new = (
        {item.tensor_name: {one.key: one.value for one in item.quant_parameter_tensor_names} for item in annotated}
        for annotated in (before.quantization_annotation, after.quantization_annotation)
    )
    for name in old.keys() | new.keys():
        if name in values and new.get(name) is None:
            values[name].meta.pop(_QUANTIZATION, None)
        elif name in values:
            values[name].meta[_QUANTIZATION] = new[name]
