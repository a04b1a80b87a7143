"""Corrects an exported model: counts placeholders, names dynamic dims, sets opsets, and removes internal attributes."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx

from surgeon.errors import ExportError
from surgeon.ops.traversal import nodes_of, subgraphs
from surgeon.torch.placeholders.call_binding import CALL_ID_ATTRIBUTE, TEMPORARY_DOMAIN
from surgeon.torch.placeholders.example_inputs import ExampleInputs
from surgeon.torch.placeholders.export_plan import ExportedCall, ExportState

LARGE = 1_900_000_000  # bytes; above, onnx cannot infer shapes


def name_sizes(model: onnx.ModelProto, inputs: ExampleInputs, shapes: Mapping[str, Sequence[int | str | None]]) -> None:
    """Name the dynamic dims, in place.

    shapes: of outputs of placeholders that the exporter drops; shapes that depend on them are inferred again.  Raises
    ExportError if a requested dynamic dim is static.
    """
    _rename(model, _requested_names(model, inputs))
    if not shapes or not any(inputs.dynamic_axes):
        return
    known = {name for axes in inputs.dynamic_axes for name in axes.values()}
    generated: list[tuple[Any, str]] = []
    for info in _infos(model.graph):
        stated = shapes.get(info.name, ())
        for axis, dim in enumerate(_dims(info)):
            size = stated[axis] if axis < len(stated) else None
            if isinstance(size, int):
                dim.dim_value = size
            elif isinstance(size, str):
                dim.dim_param = size
            elif dim.dim_param and dim.dim_param not in known:
                generated.append((dim, dim.dim_param))
                dim.ClearField("dim_param")
    if generated and model.ByteSize() < LARGE:
        _infer(model)
    for dim, name in generated:
        if not dim.WhichOneof("value"):
            dim.dim_param = name


def _infer(model: onnx.ModelProto) -> None:
    """Fill in unknown sizes by shape inference of onnx; none if it rejects the model."""
    try:
        found = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except onnx.shape_inference.InferenceError:
        return
    inferred = {info.name: info for info in _infos(found.graph)}
    for info in _infos(model.graph):
        for dim, other in zip(_dims(info), _dims(inferred.get(info.name)), strict=False):
            if not dim.WhichOneof("value"):
                dim.CopyFrom(other)


def _requested_names(model: onnx.ModelProto, inputs: ExampleInputs) -> dict[str, str]:
    """The requested name of each dynamic dim by the name that the exporter gives it."""
    renamed: dict[str, str] = {}
    by_name = {info.name: info for info in model.graph.input}
    written = [by_name.get(name) for name in inputs.names]
    if None in written and len(by_name) == len(written):  # dynamo generates names for tensors in containers
        written = list(by_name.values())
    for info, name, axes in zip(written, inputs.names, inputs.dynamic_axes, strict=True):
        dims = _dims(info)
        for axis, wanted in axes.items():
            if axis >= len(dims):
                continue
            if dims[axis].HasField("dim_value"):
                raise ExportError(
                    f"Axis {axis} of {name!r} should be dynamic, but the exporter fixed it at {dims[axis].dim_value}. "
                    "Change the code that needs this size, or leave the axis out of dynamic_shapes."
                )
            renamed.setdefault(dims[axis].dim_param, wanted)
    return renamed


def _dims(info: onnx.ValueInfoProto | None) -> Sequence[Any]:
    return info.type.tensor_type.shape.dim if info is not None and info.type.HasField("tensor_type") else ()


def _infos(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    return [*graph.input, *graph.output, *graph.value_info]


def _rename(model: onnx.ModelProto, renamed: Mapping[str, str]) -> None:
    """Rename dims, also inside expressions such as `2*s77`."""
    changes = {old: new for old, new in renamed.items() if old != new}
    if not changes:
        return
    word = re.compile("|".join(rf"(?<![\w/.]){re.escape(old)}(?![\w/.])" for old in sorted(changes, key=len)[::-1]))
    for info in [one for graph in _graphs(model) for one in _infos(graph)]:
        for dim in _dims(info):
            if dim.dim_param:
                dim.dim_param = word.sub(lambda found: changes[found.group()], dim.dim_param)


def _graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    yield model.graph
    for node in nodes_of(model):
        yield from subgraphs(node)


def finalize(model: onnx.ModelProto, plan: ExportState) -> Counter[str]:
    """Correct the model in place and return the number of nodes of each placeholder.

    Raises ExportError if a requested dynamic dim is static.
    """
    found: Counter[str] = Counter()
    shapes: dict[str, list[int | str | None]] = {}
    for node in nodes_of(model):
        mark = next((item.i for item in node.attribute if item.name == CALL_ID_ATTRIBUTE), None)
        if mark is not None:
            written = plan.calls[mark]
            _restore_node(node, written)
            found[written.placeholder.name] += 1
            shapes.update(zip(node.output, written.shapes, strict=False))
            plan.calls_by_output[next((name for name in node.output if name), "")] = written
    _import(model, {one.domain: plan.version for one in plan.placeholders if found[one.name]})
    name_sizes(model, plan.inputs, shapes)
    return found


def _restore_node(node: onnx.NodeProto, written: ExportedCall) -> None:
    """Set the domain, op type and inputs of a placeholder node, and order its attributes as in the schema."""
    node.domain, node.op_type = written.placeholder.domain, written.placeholder.op
    node.input.extend([""] * (written.inputs - len(node.input)))  # exporters drop trailing empty ones
    order = {item.name: place for place, item in enumerate(written.schema.arguments)}
    items = sorted(
        (item for item in node.attribute if item.name != CALL_ID_ATTRIBUTE),
        key=lambda item: order.get(item.name, len(order)),
    )
    del node.attribute[:]
    node.attribute.extend(items)


def _import(model: onnx.ModelProto, versions: Mapping[str, int]) -> None:
    """Import the domain of each placeholder at its version."""
    for item in list(model.opset_import):
        if item.domain == TEMPORARY_DOMAIN:
            model.opset_import.remove(item)
    imported = {item.domain: item for item in model.opset_import}
    for domain, version in versions.items():
        if domain in imported:
            imported[domain].version = version
        else:
            model.opset_import.add(domain=domain, version=version)
