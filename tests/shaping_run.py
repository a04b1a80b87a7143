"""Compares evaluated shapes with those that ONNX Runtime makes: every tensor of a main graph, at several sizes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from surgeon.ir.original_model import OriginalModel
from surgeon.ir.scope import Scope
from surgeon.shapes.algebra.size_expressions import evaluate, symbols
from surgeon.shapes.shape_inference import ShapeInference
from tests.models import index_of

Sizes = Mapping[str, int]


@dataclass
class Compared:
    """What comparing found.  wrong: one line for each disagreement.  unranked, open: tensors without a known rank, or
    with a dimension of their own.  values: tensors whose elements were known."""

    tensors: int = 0
    wrong: list[str] = field(default_factory=list)
    unranked: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)


def shapes_of(model: onnx.ModelProto) -> tuple[ShapeInference, Scope]:
    """An evaluator of a model, and its main scope."""
    index = index_of(model)
    return ShapeInference(OriginalModel(index)), index.main


def free_sizes(model: onnx.ModelProto, batch: int, other: int) -> dict[str, int]:
    """A size for each free dimension of the inputs: that of a batch, or another."""
    shapes, scope = shapes_of(model)
    found = [shapes.facts(scope, value.name).shape or () for value in model.graph.input]
    names = {name for shape in found for size in shape for name in symbols(size)}
    groups = {
        value.type.tensor_type.shape.dim[0].dim_param for value in model.graph.input if value.type.tensor_type.shape.dim
    }
    return {name: batch if name in groups or "batch" in name else other for name in names}


def feeds(model: onnx.ModelProto, sizes: Sizes, given: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
    """Inputs at these sizes: ones for masks and truths, small integers, normal floats."""
    shapes, scope = shapes_of(model)
    made = dict(given or {})
    numbers = np.random.default_rng(0)
    for value in model.graph.input:
        if value.name in made:
            continue
        dtype, shape = shapes.facts(scope, value.name)
        kind = helper.tensor_dtype_to_np_dtype(dtype)
        shape = [evaluate(size, sizes) for size in shape]
        if "mask" in value.name or kind == np.bool_:
            made[value.name] = np.ones(shape, kind)
        else:
            random = numbers.integers(0, 4, shape) if kind.kind in "iu" else numbers.normal(size=shape)
            made[value.name] = np.asarray(random).astype(kind)
    return made


def run_all(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every tensor that a node of the main graph makes, by name; ONNX Runtime without optimisations."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    there = {value.name for value in model.graph.output}
    names = [name for node in model.graph.node for name in node.output if name and name not in there]
    wide.graph.output.extend([onnx.ValueInfoProto(name=name) for name in names])
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(wide.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs = [value.name for value in session.get_outputs()]
    return dict(zip(outputs, session.run(None, dict(inputs)), strict=True))


def compare(
    model: onnx.ModelProto, sets: Sequence[Sizes], given: Sequence[Mapping[str, np.ndarray]] | None = None
) -> Compared:
    """Evaluate each tensor once, then hold it against what the model makes at each set of sizes."""
    shapes, scope = shapes_of(model)
    names = [name for node in model.graph.node for name in node.output if name]
    found = {name: (shapes.facts(scope, name), shapes.value(scope, name)) for name in names}
    reported = Compared(len(names), values=[name for name in names if found[name][1] is not None])
    for place, sizes in enumerate(sets):
        real = run_all(model, feeds(model, sizes, given[place] if given else None))
        for name in names:
            if not isinstance(real[name], np.ndarray):
                continue  # a sequence
            complaint = _disagrees(name, *found[name], real[name], sizes, reported)
            if complaint:
                reported.wrong.append(f"{name} at {dict(sizes)}: {complaint}")
    return reported


def _disagrees(name, facts, value, real, sizes, compared: Compared) -> str:
    """Why a tensor is not what was evaluated; empty where it is."""
    if facts.dtype != helper.np_dtype_to_tensor_dtype(real.dtype):
        return f"dtype {facts.dtype} for {real.dtype}"
    if facts.shape is None:
        compared.unranked += [name] if name not in compared.unranked else []
        return ""
    if len(facts.shape) != real.ndim:
        return f"rank of {facts.shape} for {real.shape}"
    for size, true in zip(facts.shape, real.shape, strict=True):
        if any(part.startswith("?") for part in symbols(size)):
            compared.open += [name] if name not in compared.open else []
        elif evaluate(size, sizes) != true:
            return f"shape {facts.shape} for {real.shape}"
    if value is not None and not any(part.startswith("?") for item in value.flat for part in symbols(item)):
        numbers = np.array([evaluate(item, sizes) for item in value.flat]).reshape(value.shape)
        if not np.array_equal(numbers, real):
            return f"value {value} for {real}"
    return ""
