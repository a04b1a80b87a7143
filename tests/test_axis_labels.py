"""Labels of axes say what ops do: where an element of the output comes from, and which shape the output has."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from surgeon.ir.original_model import OriginalModel
from surgeon.shapes.op_rules.axis_labels import AxisLabels
from surgeon.shapes.op_rules.rule_table import LABELS, axis_labels
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.shapes.tensor_types import NodeView
from tests import exports, sampling
from tests.models import index_of
from tests.test_shaping_exports import CASES, SAMPLE

CUT = {"k": [0], "m": [4], "a": [1]}
# A node, its inputs, and the whole numbers that are constants.
NODES = {
    "sums": ("y = Add (x, z)", "float[2, 3, 4] x, float[3, 1] z"),
    "choices": ("y = Where (c, x, z)", "bool[4] c, float[2, 3, 4] x, float[3, 1] z"),
    "products": ("y = MatMul (x, z)", "float[2, 3, 4] x, float[4, 5] z"),
    "products of batches": ("y = MatMul (x, z)", "float[2, 1, 3, 4] x, float[6, 4, 5] z"),
    "a vector times a matrix": ("y = MatMul (x, z)", "float[4] x, float[2, 4, 5] z"),
    "matrices": ("y = Gemm <transA = 1, transB = 1> (x, z, b)", "float[4, 3] x, float[5, 4] z, float[5] b"),
    "labelled sums": ('y = Einsum <equation = "bij,kj->bki"> (x, z)', "float[2, 3, 4] x, float[5, 4] z"),
    "labelled sums of batches": ('y = Einsum <equation = "...ij,jk"> (x, z)', "float[2, 6, 3, 4] x, float[4, 5] z"),
    "turned": ("y = Transpose <perm = [2, 0, 1]> (x)", "float[2, 3, 4] x"),
    "new axes": ("y = Unsqueeze (x, k)", "float[3, 4] x, int64[2] k", {"k": [0, 2]}),
    "no axes of one": ("y = Squeeze (x, k)", "float[2, 1, 4] x, int64[1] k", {"k": [1]}),
    "joined": ("y = Concat <axis = 1> (x, z)", "float[2, 3, 4] x, float[2, 5, 4] z"),
    "split": ("y, w = Split <axis = 1, num_outputs = 2> (x)", "float[3, 4, 5] x"),
    "spread": ("y = Expand (x, k)", "float[3, 1] x, int64[3] k", {"k": [2, 3, 4]}),
    "repeated": ("y = Tile (x, k)", "float[3, 4] x, int64[2] k", {"k": [1, 2]}),
    "padded": ("y = Pad (x, k)", "float[3, 4] x, int64[4] k", {"k": [0, 1, 0, 1]}),
    "cut": ("y = Slice (x, k, m, a)", "float[3, 6] x, int64[1] k, int64[1] m, int64[1] a", CUT),
    "picked": ("y = Gather <axis = 1> (x, k)", "float[2, 5, 4] x, int64[3] k", {"k": [4, 0, 1]}),
    "picked each": ("y = GatherElements <axis = 1> (x, k)", "float[2, 3] x, int64[2, 2] k", {"k": [[2, 0], [1, 1]]}),
    "picked by tuples": ("y = GatherND (x, k)", "float[5, 4, 3] x, int64[2, 2] k", {"k": [[4, 0], [1, 3]]}),
    "written by tuples": ("y = ScatterND (x, k, z)", "float[5, 3] x, int64[2, 1] k, float[2, 3] z", {"k": [[4], [1]]}),
    "softmax": ("y = Softmax <axis = 1> (x)", "float[2, 3, 4] x"),
    "norms": ("y = LayerNormalization <axis = 1> (x, s, b)", "float[3, 2, 4] x, float[2, 4] s, float[4] b"),
    "norms of channels": ("y = InstanceNormalization (x, s, b)", "float[3, 2, 4] x, float[2] s, float[2] b"),
    "maxima": ("y = ReduceMax <keepdims = 0> (x, k)", "float[2, 3, 4] x, int64[1] k", {"k": [1]}),
    "sums over axes": ("y = ReduceSum (x, k)", "float[2, 3, 4] x, int64[2] k", {"k": [0, -1]}),
    "running sums": ("y = CumSum (x, k)", "float[2, 3] x, int64 k", {"k": 1}),
    "triangles": ("y = Trilu (x)", "float[2, 3, 3] x"),
    "convolutions": ("y = Conv (x, w, b)", "float[2, 3, 5] x, float[4, 3, 2] w, float[4] b"),
    "pools": ("y = MaxPool <kernel_shape = [2]> (x)", "float[2, 3, 5] x"),
    "grids": ("y = GridSample (x, z)", "float[2, 3, 4, 4] x, float[2, 5, 5, 2] z"),
    "attention": ("y = Attention (x, z, v)", "float[2, 3, 4, 6] x, float[2, 3, 5, 6] z, float[2, 3, 5, 6] v"),
    "recurrent layers": (
        "w, y = GRU <hidden_size = 2> (x, a, c)", "float[4, 3, 5] x, float[1, 6, 5] a, float[1, 6, 2] c"
    ),
}


def view_of(name: str) -> tuple[onnx.ModelProto, NodeView, AxisLabels]:
    """A model of one node, in which given whole numbers are constants; the node, and its labels."""
    node, inputs, *given = NODES[name]
    outputs = node.partition(" = ")[0].split(", ")
    made = ", ".join(f"float {output}" for output in outputs)
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 23]> g ({inputs}) => ({made}) {{ {node} }}')
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    for key, numbers in dict(*given).items():
        model.graph.initializer.append(numpy_helper.from_array(np.array(numbers, np.int64), key))
        model.graph.input.remove(next(value for value in model.graph.input if value.name == key))
    shapes = ShapeInference(OriginalModel(index_of(model)))
    (only,) = shapes.origin.index.main.nodes
    view = shapes.site(only)
    labels = axis_labels(view)
    assert labels is not None
    return model, view, labels


def fed(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Random inputs; those that are not floats are 0 and 1 in turn."""
    numbers, found = np.random.default_rng(0), {}
    for value in model.graph.input:
        kind = value.type.tensor_type
        shape = [dim.dim_value for dim in kind.shape.dim]
        is_float = kind.elem_type == onnx.TensorProto.FLOAT
        made = numbers.normal(size=shape) if is_float else np.arange(np.prod(shape)).reshape(shape) % 2
        found[value.name] = made.astype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
    return found


@pytest.mark.parametrize("name", NODES)
def test_positions_along_a_label_are_apart_unless_the_op_combines_them(name: str) -> None:
    """Another element at one position of an input changes the output at no other position along the same label."""
    model, view, labels = view_of(name)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    inputs, output = fed(model), list(labels.output or ())
    (before,) = session.run(["y"], inputs)
    checked = []
    for place, axes in labels.inputs.items():
        array = inputs.get(view.inputs[place])
        for axis, label in enumerate(axes):
            is_apart = label is not None and label in output and label not in labels.mixed
            if not is_apart or array is None or array.dtype != np.float32 or array.shape[axis] == 1:
                continue
            other = array.copy()
            at = (*[slice(None)] * axis, slice(1, 2))
            other[at] += np.random.default_rng(1).normal(size=other[at].shape)
            (after,) = session.run(["y"], {**inputs, view.inputs[place]: other})
            differs = np.moveaxis(before != after, output.index(label), 0)
            assert differs[1].any(), (place, axis)
            assert not np.delete(differs, 1, 0).any(), (place, axis)
            checked.append(label)
    assert checked or name == "picked each" or not {*output} - {*labels.mixed, None}


@pytest.mark.parametrize("name", NODES)
def test_an_axis_of_the_output_is_as_long_as_those_of_the_inputs_that_it_is_one_with(name: str) -> None:
    _, view, labels = view_of(name)
    made = view.made_shape()
    assert made is not None
    assert labels.output is None or len(labels.output) == len(made)
    for axis in range(len(made)):
        sizes = {view.shape(place)[own] for place, own in labels.origins(axis)}
        assert sizes <= {1, made[axis]}


@pytest.mark.parametrize("name", sampling.chosen(lambda: SAMPLE, lambda: SAMPLE))
def test_axes_of_an_export_that_are_one_have_one_size(name: str) -> None:
    """So they are proved at sizes at which they run; only a size of 1 goes with any other."""
    model = onnx.load(exports.export(CASES[name])[0])
    shapes = ShapeInference(OriginalModel(index_of(model)))
    views = [shapes.site(node) for node in shapes.origin.index.main.nodes]
    labels = [axis_labels(view) for view in views]
    known = [(view, found) for view, found in zip(views, labels, strict=True) if found is not None]
    assert len(known) > len(views) / 2
    pairs = [pair for view, found in known for pair in found.equal_sizes(view)]
    assert pairs
    assert not [pair for pair in pairs if all(isinstance(size, int) for size in pair) and pair[0] != pair[1]]


def test_labels_are_of_operators() -> None:
    assert all("::" in op or onnx.defs.has(op) for op in LABELS)
