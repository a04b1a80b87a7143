"""`surgeon upgrade` over versions that changed a default or took an op out: an edited node answers as before."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import surgeon
from surgeon.errors import GraphError
from surgeon.testing import parse

SMALLER, LARGER = "float[4] s = {1, 1, 0.5, 0.7}", "float[4] s = {1, 1, 2, 1.5}"
GROUPED = "float[2] s = {1, 3}, float[2] b = {0, 5}"


def model_of(body: str, opset: int, x: str = "n, 4, 6, 5", constants: str = "") -> onnx.ModelProto:
    y = ", ".join("abcd"[: x.count(",") + 1])
    text = f'<ir_version: 5, opset_import: ["": {opset}]> g (float[{x}] x) => (float[{y}] y) <{constants}> {{ {body} }}'
    return parse(text)


def ops_of(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def answer(model: onnx.ModelProto) -> np.ndarray:
    """What ONNX Runtime answers without its own optimisations, three rows at a time."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    (given,) = session.get_inputs()
    shape = [size if isinstance(size, int) else 3 for size in given.shape]
    return session.run(None, {given.name: np.random.default_rng(5).normal(size=shape).astype(np.float32)})[0]


CASES = {
    "Resize, larger": (model_of("y = Resize(x, s)", 10, constants=LARGER), 11, ["Resize"]),
    "Resize, smaller": (model_of("y = Resize(x, s)", 10, constants=SMALLER), 13, ["Resize"]),
    "Resize, linear": (model_of('y = Resize <mode = "linear"> (x, s)', 10, constants=LARGER), 19, ["Resize"]),
    "Resize, linear and smaller": (model_of('y = Resize <mode = "linear"> (x, s)', 10, constants=SMALLER), 11, None),
    "Resize, linear by scales that come in": (
        model_of('t = Shape(x) h = Cast <to = 1> (t) s = Div(h, h) y = Resize <mode = "linear"> (x, s)', 10),
        11,
        None,
    ),
    "Upsample, one version on": (model_of("y = Upsample <scales = [1.0, 1.0, 2.0, 1.5]> (x)", 7), 9, ["Upsample"]),
    "Upsample, an op of another name": (model_of("y = Upsample(x, s)", 9, constants=LARGER), 10, ["Resize"]),
    "Upsample": (model_of("y = Upsample <scales = [1.0, 1.0, 3.0, 2.0]> (x)", 8), 21, ["Resize"]),
    "Upsample, linear": (
        model_of('y = Upsample <mode = "linear", scales = [1.0, 1.0, 3.0, 2.0]> (x)', 7),
        18,
        ["Resize"],
    ),
    "Upsample, scales that come in": (
        model_of(
            "a = ReduceMean <keepdims = 0> (x) b = Mul(a, zero) t = Add(s, b) y = Upsample(x, t)",
            9,
            constants=f"{LARGER}, float zero = {{0}}",
        ),
        21,
        ["ReduceMean", "Mul", "Add", "Resize"],
    ),
    "Softmax of a tensor of unknown rank": (
        model_of(
            "h = Shape(x) c = Cast <to = 1> (h) n = NonZero(c) f = Squeeze <axes = [0]> (n) t = Gather(h, f) "
            "r = Reshape(x, t) p = Softmax(r) y = Reshape(p, h)",
            11,
        ),
        13,
        None,
    ),
    **{
        f"ConvTranspose, {pads}": (
            model_of(
                f'y = ConvTranspose <strides = [2, 2], auto_pad = "{pads}"> (x, w)',
                10,
                "n, 1, 6, 5",
                "float[1, 1, 3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}",
            ),
            21,
            ["ConvTranspose"],
        )
        for pads in ("SAME_UPPER", "SAME_LOWER")
    },
    "Softmax": (model_of("y = Softmax(x)", 11), 13, ["Shape", "Flatten", "Softmax", "Reshape"]),
    "Softmax of all": (model_of("y = Softmax <axis = 0> (x)", 9), 21, ["Shape", "Flatten", "Softmax", "Reshape"]),
    "LogSoftmax": (model_of("y = LogSoftmax <axis = 2> (x)", 12), 13, None),
    "Hardmax": (model_of("y = Hardmax <axis = -2> (x)", 11), 13, None),
    "Softmax between nodes": (model_of("a = Abs(x) b = Softmax(a) c = LogSoftmax(b) y = Add(a, c)", 12), 17, None),
    "Softmax over channels": (model_of("y = Softmax <axis = 1> (x)", 11, "n, 7, 1, 1"), 13, ["Softmax"]),
    "Scatter": (
        model_of("y = Scatter <axis = 1> (x, i, u)", 9, "n, 4", "int64[1, 2] i = {3, 0}, float[1, 2] u = {7, 9}"),
        18,
        ["ScatterElements"],
    ),
    "DFT of an axis that is not set": (model_of("y = DFT(x)", 17, "n, 4, 6, 1"), 20, ["DFT"]),
    "DFT of an axis": (model_of("y = DFT <axis = 2, inverse = 1> (x)", 17, "n, 4, 6, 2"), 20, ["DFT"]),
    "DFT of a length": (model_of("y = DFT(x, s)", 17, "n, 4, 6, 1", "int64 s = {8}"), 21, ["DFT"]),
    "DFT of the last axis": (model_of("y = DFT(x)", 17, "n, 8, 1"), 20, ["DFT"]),
    "GroupNormalization": (
        model_of("y = GroupNormalization <num_groups = 2> (x, s, b)", 18, constants=GROUPED),
        21,
        ["GroupNormalization"],
    ),
    "LayerNormalization of ONNX Runtime": (
        model_of("y = LayerNormalization(x, s)", 14, "n, 2", GROUPED),
        17,
        ["LayerNormalization"],
    ),
    "MaxPool of which no window lies outside": (
        model_of("y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1> (x)", 12),
        22,
        ["MaxPool"],
    ),
    "AveragePool of whole windows": (
        model_of("y = AveragePool <kernel_shape = [2, 3], strides = [2, 2], ceil_mode = 1> (x)", 11),
        22,
        ["AveragePool"],
    ),
    "Resize by TensorFlow's pixels": (
        model_of(
            'y = Resize <coordinate_transformation_mode = "tf_half_pixel_for_nn", nearest_mode = "floor"> (x, r, s)',
            11,
            constants=f"float[0] r = {{}}, {LARGER}",
        ),
        13,
        ["Resize"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_the_node_did_is_kept(tmp_path: Path, case: str) -> None:
    model, opset, ops = CASES[case]
    path, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model, path)
    done = surgeon.upgrade(path, opset, out)
    made = onnx.load(out)
    onnx.checker.check_model(made, full_check=True)
    assert done.outcome == "proved"
    assert ops is None or ops_of(made) == ops
    assert next(item.version for item in made.opset_import) == opset
    np.testing.assert_allclose(answer(made), answer(model), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "opset", "words"),
    [
        (
            model_of("y = Resize(x, s)", 10, constants="float[4] s = {1, 1, 2, 0.5}"),
            11,
            "enlarges one axis and shrinks",
        ),
        (model_of("h = Shape(x) f = Cast <to = 1> (h) s = Div(f, f) y = Resize(x, s)", 10), 11, "which are unknown"),
        (
            model_of("y = AveragePool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (x)", 11),
            19,
            "its ceil_mode has another meaning",
        ),
        (
            model_of(
                "y = MaxPool <kernel_shape = [1, 1], strides = [2, 2], pads = [0, 0, 1, 1], ceil_mode = 1> (x)", 12
            ),
            22,
            "its ceil_mode has another meaning",
        ),
        (model_of("y = GroupNormalization <num_groups = 2> (x, s, b)", 18, "n, c, 3", GROUPED), 21, "is unknown"),
    ],
)
def test_what_nobody_can_tell_blocks(tmp_path: Path, model: onnx.ModelProto, opset: int, words: str) -> None:
    onnx.save(model, tmp_path / "in.onnx")
    with pytest.raises(GraphError, match=words):
        surgeon.upgrade(tmp_path / "in.onnx", opset, tmp_path / "out.onnx", check="none")
    assert not (tmp_path / "out.onnx").exists()


def test_nodes_are_put_around_in_bodies_too(tmp_path: Path) -> None:
    body = """m = ReduceMax <keepdims = 0> (x) c = Greater(m, s)
        y = If(c) <then_branch = t () => (float[n, 4, 5] a) { a = Softmax(x) },
                   else_branch = e () => (float[n, 4, 5] b) { z = Neg(x) b = Softmax(z) }>"""
    onnx.save(model_of(body, 12, "n, 4, 5", "float s = {0}"), tmp_path / "in.onnx")
    done = surgeon.upgrade(tmp_path / "in.onnx", 13, tmp_path / "out.onnx")
    assert done.outcome == "proved"
    flattened = "works over the flattened axes from 1 on, between a Flatten and a Reshape"
    assert done.edited == {f"Softmax: {flattened} and attribute axis=-1 was added": 2}


DOUBLES = {
    "Elu": ("y = Elu(x)", 14, 22, ""),
    "PRelu": ("y = PRelu(x, x)", 16, 20, "use --opset 18"),
    "Mish": ("y = Mish(x)", 18, 19, "no newer opset"),
    "Softplus in a body": (
        """y = If(c) <then_branch = t () => (double[n, 4] a) { a = Softplus(x) },
            else_branch = e () => (double[n, 4] b) { b = Neg(x) }>""",
        18,
        20,
        "no newer opset",
    ),
    "LeakyRelu": ("y = LeakyRelu(x)", 16, 24, "use --opset 18"),
}


@pytest.mark.parametrize("case", DOUBLES)
def test_an_opset_without_a_kernel_blocks(tmp_path: Path, case: str) -> None:
    """ONNX Runtime runs these in float64 by the body of the op, and that at few opsets; Elu at 14 it never ran."""
    body, old, new, words = DOUBLES[case]
    head = "(double[n, 4] x) => (double[n, 4] y) <bool c = {1}>"
    onnx.save(parse(f'<ir_version: 8, opset_import: ["": {old}]> g {head} {{ {body} }}'), tmp_path / "in.onnx")
    if not words:
        assert surgeon.upgrade(tmp_path / "in.onnx", new, tmp_path / "out.onnx", check="none").opset == (old, new)
        return
    with pytest.raises(GraphError, match=rf"no kernel for ai.onnx::.* in double at opset {new}.*; {words}"):
        surgeon.upgrade(tmp_path / "in.onnx", new, tmp_path / "out.onnx", check="none")
    assert not (tmp_path / "out.onnx").exists()
