"""Declared shapes of a model (inputs, outputs, value_info): list, rename and infer dims."""

import re
from collections.abc import Callable, Iterator, Sequence

import onnx
from onnx import TypeProto

from surgeon.ops.traversal import graphs_and_functions, nested_graphs
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.shapes.algebra.size_expressions import parse_size, symbols
from surgeon.shapes.constraints.input_dims import input_dims, required_inputs
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.shapes.tensor_types import TensorType, contradict, fixed_sizes

NAME = re.compile(r"[A-Za-z_][\w.]*(?:-[\w.]+)*")


def dims_of(model: onnx.ModelProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    """All declared dims: of inputs, outputs and value_info, also in bodies and functions."""
    for holder in graphs_and_functions(model):
        values = list(holder.value_info)
        if isinstance(holder, onnx.GraphProto):
            values += [*holder.input, *holder.output]
        for value in values:
            yield from dims_in(value.type)


def dims_in(kind: TypeProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    """The dims of a tensor type, or of the elements of a sequence, optional or map type."""
    which = kind.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        yield from getattr(kind, which).shape.dim
    elif which in ("sequence_type", "optional_type"):
        yield from dims_in(getattr(kind, which).elem_type)
    elif which == "map_type":
        yield from dims_in(kind.map_type.value_type)


def dynamic_dim_names(model: onnx.ModelProto) -> list[str]:
    """Dynamic dims of a model's inputs, in order: names, names in expressions, and `input[axis]` without a name."""
    found: dict[str, None] = {}
    for value in required_inputs(model.graph).values():
        if value.type.WhichOneof("value") == "tensor_type":
            for size in input_dims(value):
                if isinstance(size, str):
                    found.update(dict.fromkeys(sorted(symbols(parse_size(size))) if "[" not in size else [size]))
    return list(found)


def rename_dims(model: onnx.ModelProto, change: Callable[[str], str]) -> int:
    """Rename all dims, also in expressions; returns how many declared dims changed."""
    changed = 0
    for dim in dims_of(model):
        text = dim.dim_param
        if not text:
            continue
        names = symbols(parse_size(text))
        new = change(text.strip()) if text.strip() in names else _renamed_in(text, change)
        if new != text:
            dim.dim_param = new
            changed += 1
    return changed


def _renamed_in(text: str, change: Callable[[str], str]) -> str:
    """An expression with renamed dims; a name before a bracket is a function."""

    def new(found: re.Match[str]) -> str:
        name = found.group()
        return name if text[found.end() :].lstrip().startswith("(") else change(name)

    return NAME.sub(new, text)


def shape_inference_error(model: onnx.ModelProto) -> str:
    """The error of onnx shape inference, without declared shapes of inner tensors and outputs; empty for none."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    for holder in graphs_and_functions(bare):
        del holder.value_info[:]
    main, *bodies = nested_graphs(bare.graph)
    for value in (*main.output, *(value for body in bodies for value in (*body.input, *body.output))):
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    try:
        onnx.shape_inference.infer_shapes(bare, strict_mode=True)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError) as error:
        message = re.sub(r"\[\w+\] |Inference error\(s\): ", "", " ".join(str(error).split())).rstrip(".")
        return re.sub(r"\(op_type:(\w+)(?:, node name: (.*?))?\)", _node_text, message)
    return ""


def _node_text(found: re.Match[str]) -> str:
    op, name = found.groups()
    return f"{op} at {name!r}" if name else op


def declare_shape(value: onnx.ValueInfoProto, facts: TensorType) -> None:
    """Declare the known dtype and shape of a tensor; unknown sizes stay unknown."""
    stated = value.type.tensor_type
    if facts.dtype is not None and not stated.elem_type:
        stated.elem_type = facts.dtype
    if facts.shape is None:
        for dim in stated.shape.dim:
            dim.Clear()
        return
    stated.ClearField("shape")
    stated.shape.SetInParent()
    for size in facts.shape:
        dim = stated.shape.dim.add()
        if isinstance(size, int):
            dim.dim_value = size
        elif "?" not in str(size):
            dim.dim_param = str(size)


def correct_output_shapes(draft: ModelDraft) -> Iterator[str]:
    """Correct declared output shapes that contradict inference, and yield a sentence for each.

    Ranks and fixed sizes are compared; sizes that inference does not know stay as declared.
    """
    made = draft.shapes
    for value in draft.graph.output:
        dims = value.type.tensor_type.shape.dim
        facts = made.facts(draft.index.main, value.name)
        if dims and facts.shape is not None and contradict(fixed_sizes(dims), facts.shape):
            before = _text(dims)
            declare_shape(value, facts)
            after = _text(value.type.tensor_type.shape.dim)
            yield f"the output {value.name!r} is declared as {after} instead of {before}"


def _text(dims: Sequence[onnx.TensorShapeProto.Dimension]) -> str:
    sizes = (str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in dims)
    return f"[{', '.join(sizes)}]"


def infer_declared_shapes(draft: ModelDraft) -> int:
    """Declare the inferred shapes of all tensors of the main graph; returns how many are declared."""
    graph = draft.graph
    before = {value.name: value for value in graph.value_info}
    kept = [before[name] for name in before]
    del graph.value_info[:]
    draft.changed()
    ends = {value.name for value in (*graph.input, *graph.output)}
    shapes: ShapeInference = draft.shapes
    for name in (name for node in graph.node for name in node.output if name and name not in ends):
        facts = shapes.facts(draft.index.main, name)
        earlier = before.get(name)
        if earlier is not None and (not earlier.type.HasField("tensor_type") or facts.dtype is None):
            graph.value_info.append(earlier)
        elif facts.dtype is not None:
            made = onnx.ValueInfoProto(name=name)
            if earlier is not None:
                made.CopyFrom(earlier)
            declare_shape(made, facts)
            graph.value_info.append(made)
    stored = {value.name for value in graph.value_info}
    made_here = {name for node in graph.node for name in node.output}
    graph.value_info.extend(value for value in kept if value.name not in stored | made_here | ends)
    draft.changed()
    return len(graph.value_info)
