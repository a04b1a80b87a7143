"""Differences in the interfaces of models and local functions: inputs, outputs, opsets, defaults."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from onnx import FunctionProto, GraphProto, ModelProto

from surgeon.display.diff.model_diff import ModelChange
from surgeon.display.pictures.diagram import attribute_text
from surgeon.ir.scope import Scope
from surgeon.ops.traversal import function_key
from surgeon.targets.inspection.model_summary import type_text
from surgeon.text import join_first

FIRST_IR_WITH_DEFAULTS = 4  # before it, inputs had to list all stored tensors, without being optional (onnx IR.md)
SHOWN = 6  # inputs with a default listed by name


def interface_changes(one: ModelProto, other: ModelProto) -> Iterator[ModelChange]:
    """The differences in inputs and outputs, opsets, and functions."""
    for side in ("input", "output"):
        values = [_values(model.graph, side) for model in (one, other)]
        for name in dict.fromkeys((*values[0], *values[1])):
            texts = [values.get(name, "") for values in values]
            if texts[0] != texts[1]:
                yield ModelChange("interface", f"{side} {name}: {texts[0] or 'nothing'} → {texts[1] or 'nothing'}")
        rows = [[item.name for item in getattr(model.graph, side) if item.name in values]
                for model, values in zip((one, other), values, strict=True)]
        if rows[0] != rows[1] and sorted(rows[0]) == sorted(rows[1]):
            yield ModelChange("interface", f"the {side}s come in another order: {', '.join(rows[1])}")
        counts = Counter(rows[0]), Counter(rows[1])
        for name in sorted(counts[0].keys() & counts[1].keys()):
            if counts[0][name] != counts[1][name]:
                times = f"{counts[0][name]} → {counts[1][name]}"
                yield ModelChange("interface", f"{side} {name} is listed so many times: {times}")
    optional = [_inputs_with_default(model) for model in (one, other)]
    if set(optional[0]) != set(optional[1]):
        before, after = (
            join_first([name for name in names if name not in others], SHOWN) or "none"
            for names, others in (optional, optional[::-1])
        )
        yield ModelChange("interface", f"inputs with a default, in only one model: {before} → {after}")
    yield from _opset_changes(*({item.domain: item.version for item in model.opset_import} for model in (one, other)))
    functions = [{_function_label(item) for item in model.functions} for model in (one, other)]
    for name in sorted(functions[0] ^ functions[1]):
        which = "first" if name in functions[0] else "second"
        yield ModelChange("interface", f"the local function {name} is only in the {which} model")


def function_changes(one: Scope, other: Scope) -> Iterator[ModelChange]:
    """The differences in the opsets and in the attribute defaults of a local function."""
    for change in _opset_changes(one.versions, other.versions):
        yield ModelChange(change.kind, change.what, scope=one.label)
    protos = [scope.proto for scope in (one, other) if isinstance(scope.proto, FunctionProto)]
    defaults = [{item.name: item for item in proto.attribute_proto} for proto in protos]
    for name in dict.fromkeys((*defaults[0], *defaults[1])):
        items = [values.get(name) for values in defaults]
        data = [None if item is None else item.SerializeToString(deterministic=True) for item in items]
        if data[0] != data[1]:
            before, after = ("none" if item is None else attribute_text("", item) for item in items)
            yield ModelChange("attributes", f"default of {name}: {before} → {after}", scope=one.label)


def _values(graph: GraphProto, side: str) -> dict[str, str]:
    """The inputs or outputs of a graph with their types, without stored tensors that old files list as inputs."""
    stored = {tensor.name for tensor in graph.initializer} if side == "input" else set()
    return {item.name: type_text(item.type) for item in getattr(graph, side) if item.name not in stored}


def _inputs_with_default(model: ModelProto) -> Sequence[str]:
    """The stored tensors that are also inputs, so that a caller may replace them."""
    if model.ir_version < FIRST_IR_WITH_DEFAULTS:
        return ()
    stored = {tensor.name for tensor in model.graph.initializer}
    return [item.name for item in model.graph.input if item.name in stored]


def _opset_changes(one: Mapping[str, int], other: Mapping[str, int]) -> Iterator[ModelChange]:
    opsets = [{domain or "ai.onnx": version for domain, version in side.items()} for side in (one, other)]
    for domain in dict.fromkeys((*opsets[0], *opsets[1])):
        before, after = (values.get(domain, "none") for values in opsets)
        if before != after:
            yield ModelChange("opset", f"opset of {domain}: {before} → {after}")


def _function_label(function: FunctionProto) -> str:
    domain, name, overload = function_key(function)
    return f"{domain}::{name}" + (f" (overload {overload})" if overload else "")
