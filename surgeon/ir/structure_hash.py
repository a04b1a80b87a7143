"""A hash of a model's structure: equal for models that differ only in names, metadata and large weights."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b

import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, ValueInfoProto

from surgeon.ops.traversal import attribute_graphs, bytes_without

_TENSORS_AND_GRAPHS = "t", "tensors", "g", "graphs"
_LONGEST = 64  # bytes of a constant that decides something, such as axes or an epsilon; longer ones are weights


def structure_hash(skeleton: onnx.ModelProto) -> str:
    """16 hexadecimal digits, from opsets, ops, attributes, wiring, sizes and small constants.

    Tensors are numbered in the order in which nodes first use them, so names and the order of initializers do not
    matter; nor do names of dynamic dims, metadata and declared types of inner tensors.
    """
    found = blake2b(digest_size=8)
    for entry in sorted((item.domain, item.version) for item in skeleton.opset_import):
        found.update(repr(entry).encode())
    for part in _graph(skeleton.graph, _Numbers()):
        found.update(part)
    for function in sorted(skeleton.functions, key=lambda item: (item.domain, item.name, item.overload)):
        numbers = _Numbers()
        found.update(repr((function.domain, function.name, [numbers[name] for name in function.input])).encode())
        for part in _nodes(function.node, numbers, {}):
            found.update(part)
        found.update(repr([numbers[name] for name in function.output]).encode())
    return found.hexdigest()


class _Numbers(dict[str, int]):
    """Numbers of tensors in order of first use; 0 for an absent one."""

    def __missing__(self, name: str) -> int:
        number = self[name] = len(self) + 1 if name else 0
        return number


def _graph(graph: GraphProto, numbers: _Numbers) -> Iterator[bytes]:
    yield from (_value(value, numbers) for value in graph.input)
    yield from _nodes(graph.node, numbers, {tensor.name: tensor for tensor in graph.initializer})
    yield from (_value(value, numbers) for value in graph.output)


def _nodes(nodes: Iterable[NodeProto], numbers: _Numbers, constants: dict[str, TensorProto]) -> Iterator[bytes]:
    for node in nodes:
        known = [_tensor(constants[name]) for name in node.input if name in constants]
        wiring = [numbers[name] for name in node.input], [numbers[name] for name in node.output]
        yield repr((node.domain, node.op_type, node.overload, wiring, known)).encode()
        for attribute in sorted(node.attribute, key=lambda item: item.name):
            yield _attribute(attribute)
            for body in attribute_graphs(attribute):
                yield from _graph(body, numbers)


def _attribute(attribute: AttributeProto) -> bytes:
    tensors = [*([attribute.t] if attribute.HasField("t") else ()), *attribute.tensors]
    rest = bytes_without(attribute, *_TENSORS_AND_GRAPHS, "doc_string")
    return rest + b"".join(map(_tensor, tensors))


def _tensor(tensor: TensorProto) -> bytes:
    """Its dtype and shape, and its content if that is small."""
    content = b"" if tensor.external_data else bytes_without(tensor, "name", "doc_string", "metadata_props")
    return repr((tensor.data_type, list(tensor.dims), content if len(content) <= _LONGEST else b"")).encode()


def _value(value: ValueInfoProto, numbers: _Numbers) -> bytes:
    """The number and type of an input or output of a graph, with all dynamic dims equal."""
    copy = onnx.TypeProto()
    copy.CopyFrom(value.type)
    for dim in copy.tensor_type.shape.dim if copy.HasField("tensor_type") else ():
        dim.ClearField("dim_param")
        dim.ClearField("denotation")
    return repr((numbers[value.name], copy.SerializeToString(deterministic=True))).encode()
