"""Models and replacements built from functions of a graph, and nodes of a model written as a replacement."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from onnx import numpy_helper

from surgeon import Graph, Match, Rule, require, rule

Shape = tuple[int | str, ...]
Function = Callable[..., Any]


def is_original(match: Match) -> None:
    """Spares what the rule wrote itself: these rules may write what they look for."""
    require(all(node.original for node in match.nodes), "the rule wrote it")


def model_of(
    function: Function, inputs: Mapping[str, tuple[Any, Shape]], dtype: Any, opset: int, home: type[Graph] = Graph
) -> onnx.ModelProto:
    """A model that computes a function of its inputs, which have dtypes and shapes; its output has a dtype."""
    graph = home(opset=opset)
    graph.inputs = [
        gs.Variable(name, dtype=np.dtype(kind), shape=list(shape)) for name, (kind, shape) in inputs.items()
    ]
    made = function(graph, *graph.inputs)
    return exported(graph, list(made) if isinstance(made, (list, tuple)) else [made], dtype)


def exported(graph: Graph, results: Sequence[Any], dtype: Any) -> onnx.ModelProto:
    """The model of a graph with these results."""
    graph.outputs = []
    for at, result in enumerate(results):
        result.name = f"y{at}"
        result.dtype = np.dtype(dtype)
        graph.outputs.append(result)
    graph.cleanup().toposort()
    model = gs.export_onnx(graph, do_type_check=False, ir_version=10)
    return onnx.shape_inference.infer_shapes(model)


def written(
    nodes: Sequence[onnx.NodeProto], constants: Mapping[str, Any], inputs: Sequence[str], outputs: Sequence[str]
) -> Function:
    """A replacement that writes these nodes, for captures named as the inputs are."""

    def replacement(g: Any, **captures: Any) -> Any:
        known: dict[str, Any] = {"": None, **captures}
        for node in nodes:
            if node.op_type == "Constant":
                known[node.output[0]] = g.literal(_constant(node))
                continue
            given = [known[name] if name in known else g.literal(constants[name]) for name in node.input]
            attributes = {item.name: _value(item) for item in node.attribute}
            made = g.emit(node.domain, node.op_type, given, attributes, len(node.output))
            known.update((name, tensor) for name, tensor in zip(node.output, made, strict=True) if name)
        results = [known[name] if name in known else g.identity(g.literal(constants[name])) for name in outputs]
        return results if len(results) > 1 else results[0]

    return signed(replacement, inputs)


def _constant(node: onnx.NodeProto) -> Any:
    """What a Constant node holds, as an array."""
    (item,) = node.attribute
    value = _value(item)
    if item.type == onnx.AttributeProto.TENSOR:
        return numpy_helper.to_array(value)
    return np.asarray(value, np.float32 if item.name.startswith("value_float") else None)


def _value(item: onnx.AttributeProto) -> Any:
    """An attribute as helpers take it; a graph as it is."""
    if item.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
        return item
    value = onnx.helper.get_attribute_value(item)
    return value.decode() if isinstance(value, bytes) else value


def signed(function: Function, names: Sequence[str]) -> Function:
    """The function, which is asked for captures of these names."""

    def made(g: Any, *args: Any, **kwargs: Any) -> Any:
        return function(g, **dict(zip(names, args, strict=False)), **kwargs)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    made.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in ("g", *names)])  # type: ignore[attr-defined]
    made.__module__, made.__name__ = function.__module__, "made"
    return made


def rule_of(
    pattern: Function, replacement: Function, name: str = "planted", differs: Mapping[str, str] | None = None
) -> Rule:
    """A rule that fires on nodes of the source alone.  differs: as for `surgeon.rule`."""
    settings: dict[str, Any] = {"target": "onnx", "differs": differs}
    return rule(patterns=[pattern], conditions=[is_original], name=name, **settings)(replacement)


def initializers(graph: onnx.GraphProto) -> dict[str, Any]:
    """The constants of a graph as arrays."""
    return {item.name: numpy_helper.to_array(item) for item in graph.initializer}
