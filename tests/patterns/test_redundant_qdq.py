"""What is dequantised and quantised again: what is taken out, and what does not match."""

import onnx
import pytest
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
from surgeon.patterns.quantization.redundant_qdq import qdq_around_relu, redundant_dq_q, redundant_q_dq

import surgeon
from surgeon.runtime.tensorrt.library import installed
from surgeon.testing import Case, check_fires, check_spares, parse
from tests.quantizing import Pictures, add_weights


def again(first, second, dtypes=("int8", "int8")):
    """Numbers that are dequantised by one scale and zero point and quantised by others."""
    return parse(
        f"({dtypes[0]}[n, 4] x) => ({dtypes[1]}[n, 4] y) <float s = {{0.05}}, float t = {{0.5}}, float none = {{0}}, "
        "float[4] each = {0.05, 1, 2, 3}, int8 z = {3}, int8[4] zeros = {1, 0, -128, 127}> "
        f"{{ a = DequantizeLinear(x, {first}) y = QuantizeLinear(a, {second}) }}"
    )


CONSTANTS = (
    "float s = {0.05}, float t = {0.5}, int8 z = {3}, int8 o = {0}, float low = {-0.31}, float six = {6}, "
    "float[4] each = {0.05, 1, 2, 3}, int8[4] zeros = {1, 0, -128, 127}, int64[2] turned = {4, -1}, "
    "int64[1] first = {0}, int64[1] second = {2}"
)


def pairs(body, head="(float[n, 4] x) => (float[n, 4] y)", first="s, z", second="s, z"):
    """Two pairs, and what stands between them: of `a`, which comes out of the first, it makes `b`."""
    pair = "{1} = QuantizeLinear({0}, {3}) {2} = DequantizeLinear({1}, {3})"
    before, behind = pair.format("x", "q", "a", first), pair.format("b", "r", "y", second)
    return parse(f"{head} <{CONSTANTS}> {{ {before} {body} {behind} }}")


FOR = {"target": "tensorrt"}
OTHER_READER = "(float[n, 4] x) => (float[n, 4] y, float[n, 4] e)"
POOLED = "(float[1, 2, 4, 4] x) => (float[1, 2, 2, 2] y)"
# fmt: off
FIRES = [
    Case(qdq_around_relu, "a Relu", pairs("b = Relu(a)"), **FOR),
    Case(qdq_around_relu, "a Relu, around 0", pairs("b = Relu(a)", first="s, o", second="s, o"), **FOR),
    Case(qdq_around_relu, "a Relu, a scale for each column", **FOR,
         model=pairs("b = Relu(a)", first="each, zeros", second="each, zeros")),
    Case(qdq_around_relu, "a Clip whose limits lie between steps", pairs("b = Clip(a, low, six)"), **FOR),
    Case(redundant_q_dq, "turned", pairs("b = Reshape(a, turned)", "(float[n, 4] x) => (float[4, n] y)"), **FOR),
    Case(redundant_q_dq, "the largest of windows", **FOR,
         model=pairs("b = MaxPool<kernel_shape = [2, 2], strides = [2, 2], pads = [0, 0, 0, 0]>(a)", POOLED)),
    Case(redundant_q_dq, "a Relu that others read too", pairs("b = Relu(a) e = Exp(b)", OTHER_READER), **FOR),
    Case(redundant_q_dq, "cut and joined", **FOR,
         model=pairs("c = Slice(a, first, second, first) d = Transpose<perm = [0, 1]>(c) b = Concat<axis = 0>(d, a)",
                     "(float[n, 4] x) => (float[m, 4] y)")),
    Case(redundant_q_dq, "the integers are read by others too", **FOR,
         model=pairs("b = Transpose(a)", "(float[n, 4] x) => (float[4, n] y, int8[4, n] r)")),
    Case(redundant_dq_q, "one scale", again("s, z", "s, z")),
    Case(redundant_dq_q, "a scale for each column", again("each, zeros", "each, zeros")),
    Case(redundant_dq_q, "without a zero point", again("s", "s", ("uint8", "uint8"))),
]
NEGATIVES = [
    Case(qdq_around_relu, "another scale", pairs("b = Relu(a)", second="t, z"), why="scale", **FOR),
    Case(qdq_around_relu, "another zero point", pairs("b = Relu(a)", second="s, o"), why="zero", **FOR),
    Case(qdq_around_relu, "limits that cross", pairs("b = Clip(a, six, low)"), why="above the upper one", **FOR),
    Case(qdq_around_relu, "what is rounded is read beside the Relu", why="", **FOR,
         model=pairs("b = Relu(a) e = Exp(a)", OTHER_READER)),
    Case(qdq_around_relu, "ONNX Runtime makes one kernel of it itself", pairs("b = Relu(a)"), why="no form for target"),
    Case(redundant_q_dq, "another scale", pairs("b = Transpose(a)", second="t, z"), why="quantized again", **FOR),
    Case(redundant_q_dq, "computed with since", pairs("b = Add(a, a)"), why="quantized again", **FOR),
    Case(redundant_q_dq, "joined with what is not quantised", why="quantized again", **FOR,
         model=pairs("b = Concat<axis = 0>(a, x)", "(float[n, 4] x) => (float[m, 4] y)")),
    Case(redundant_q_dq, "a scale for each column, which a Transpose turns", why="quantized again", **FOR,
         model=pairs("b = Transpose(a)", "(float[4, 4] x) => (float[4, 4] y)", "each, zeros", "each, zeros")),
    Case(redundant_dq_q, "another scale", again("s, z", "t, z"), why="scale"),
    Case(redundant_dq_q, "another dtype", again("s", "s", ("int8", "uint8")), why="int8 would become uint8"),
    Case(redundant_dq_q, "a scale of nothing", again("none, z", "none, z"), why="too small or too large"),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


@pytest.fixture(scope="module")
def residual(tmp_path_factory):
    """A block with a residual around it, as onnxruntime.quantization leaves it: a pair behind every node."""
    folder = tmp_path_factory.mktemp("residual")
    net = parse(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[1, 3, 16, 16] x) => (float[1, 8, 4, 4] y) {
        a = Conv<pads = [1, 1, 1, 1]>(x, w0)  r = Relu(a)  m = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r)
        c = Conv<pads = [1, 1, 1, 1]>(m, w1)  d = Relu(c)  e = Conv<pads = [1, 1, 1, 1]>(d, w2)
        s = Add(e, m)  t = Relu(s)  y = Conv<strides = [2, 2], pads = [1, 1, 1, 1]>(t, w3) }"""
    )
    add_weights(net, tuple((f"w{place}", (8, 3 if place == 0 else 8, 3, 3)) for place in range(4)))
    onnx.save(net, folder / "in.onnx")
    quantize_static(
        folder / "in.onnx",
        folder / "out.onnx",
        Pictures(16),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
        extra_options={"ActivationSymmetric": True, "WeightSymmetric": True},
    )
    return onnx.load(folder / "out.onnx")


def test_a_residual_block_is_left_with_a_pair_behind_each_relu(residual):
    """The convolution and the sum behind it read the same dequantised tensor, and answer as before, bit for bit."""
    made, report = surgeon.rewrite(
        residual, ["duplicates", "duplicate_initializers", "redundant_qdq"], target="tensorrt"
    )
    assert report.outcome == "proved"
    assert (report.count("qdq_around_relu"), report.count("redundant_q_dq")) == (3, 1)
    by_op = {op: [node for node in made.graph.node if node.op_type == op] for op in ("Conv", "Add", "MaxPool")}
    pooled = by_op["MaxPool"][0].output[0]
    assert pooled in by_op["Add"][0].input
    assert by_op["Conv"][1].input[0] == pooled
    compared = surgeon.compare(residual, made)
    assert compared.outcome.value == "proved"
    assert max(error.max_abs for error in compared.outputs) == 0


@pytest.mark.skipif(installed() is None, reason="there is no tensorrt-rtx: it has wheels for few platforms")
def test_tensorrt_builds_it_with_fewer_layers(residual):
    made, _ = surgeon.rewrite(residual, "tensorrt", target="tensorrt", check="none")
    before, after = (surgeon.check(model, "tensorrt", build=True) for model in (residual, made))
    assert not after
    assert after.runtime.layers < before.runtime.layers
