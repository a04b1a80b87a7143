"""A quantised model without its quantisation: the floats that it stands for, and nothing else changed."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

import surgeon
from surgeon.edits import Rename, StripQdq
from surgeon.testing import parse
from tests.command_line import run
from tests.quantizing import Pictures, add_weights

KINDS = ("QuantizeLinear", "DequantizeLinear")


@pytest.fixture
def nets(tmp_path):
    """A net of floats, and what onnxruntime.quantization makes of it, a scale for each channel."""
    net = parse(
        """(float[1, 3, 8, 8] x) => (float[1, 4] y) {
        c = Conv<pads = [1, 1, 1, 1]>(x, w1, b1)  r = Relu(c)  d = Conv<pads = [1, 1, 1, 1]>(r, w2)
        a = Add(d, r)  g = GlobalAveragePool(a)  f = Flatten(g)  y = MatMul(f, w3) }"""
    )
    add_weights(net, (("w1", (8, 3, 3, 3)), ("b1", (8,)), ("w2", (8, 8, 3, 3)), ("w3", (8, 4))))
    onnx.save(net, tmp_path / "float.onnx")
    kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "per_channel": True}
    made = tmp_path / "quantised.onnx"
    quantize_static(tmp_path / "float.onnx", made, Pictures(8), quant_format=QuantFormat.QDQ, **kinds)
    return net, onnx.load(made), made


def answer(model, x):
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def test_the_floats_of_a_quantised_model_are_left(nets):
    net, quantised, _ = nets
    made, report = surgeon.edit(quantised, StripQdq())
    assert report.outcome == "unproved"
    assert "differ on purpose" in report.check.reason
    kinds = [node.op_type for node in made.graph.node]  # the quantiser left out the Relu, which 0 as the end cuts off
    wanted = ["Clip" if node.op_type == "Relu" else node.op_type for node in net.graph.node]
    assert kinds == [*wanted, "Identity"]
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in net.graph.initializer}
    stored = {
        (node.op_type, place): numpy_helper.to_array(tensor)
        for node in made.graph.node
        for place, name in enumerate(node.input)
        for tensor in made.graph.initializer
        if tensor.name == name
    }
    assert all(array.dtype == np.float32 for array in stored.values())
    steps = abs(weights["w3"]).max(0) / 127
    assert (abs(stored["MatMul", 1] - weights["w3"]) <= steps / 2 * 1.01).all()
    x = Pictures(8).get_next()["x"]
    exact, floats = (answer(model, x) for model in (net, made))
    assert abs(floats - exact).max() < 0.01 * abs(exact).max()  # of weights alone, 127 steps each
    reported = report.edits[0].said
    count = sum(node.op_type in KINDS for node in quantised.graph.node)
    assert count == 2 * int(reported[0].split()[0]) + int(reported[1].split()[0])


CONSTANTS = "float s = {0.1}, float t = {0.2}, int8 z = {3}, int8 k = {3}, uint8 low = {0}, int8 high = {127}"


def text(body):
    return parse(f"(float[2, 4] x) => (float[2, 4] y) <{CONSTANTS}> {{ {body} }}")


STAYS = [
    ("another scale", "q = QuantizeLinear(x, s, z)  y = DequantizeLinear(q, t, z)", 2),
    ("something computes between", "q = QuantizeLinear(x, s, z)  n = Neg(q)  y = DequantizeLinear(n, s, z)", 2),
    ("the integers are needed", "q = QuantizeLinear(x, s, z)  c = Cast<to = 1>(q)  y = Relu(c)", 1),
]


@pytest.mark.parametrize(("name", "body", "left"), STAYS, ids=[row[0] for row in STAYS])
def test_what_is_no_pair_stays(name, body, left):
    model = text(body)
    made, report = surgeon.edit(model, StripQdq())
    assert report.outcome == "unchanged"
    assert made.SerializeToString() == model.SerializeToString()
    assert sum(node.op_type in KINDS for node in made.graph.node) == left


def test_pairs_of_equal_constants_at_outputs_and_in_bodies_go():
    model = text(
        "q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, k)  e = QuantizeLinear(d, s, z)  "
        "f = DequantizeLinear(e, s, z)  c = ReduceMax<keepdims = 0>(f)  b = Cast<to = 9>(c)  "
        "h = If(b)<then_branch = g () => (float[2, 4] u) { u = Relu(f) }, "
        "else_branch = g () => (float[2, 4] v) { v = Neg(d) }>  r = QuantizeLinear(h, s, z)  "
        "y = DequantizeLinear(r, s, z)"
    )
    made, report = surgeon.edit(model, StripQdq())
    assert report.edits[0].said == ("3 pairs of QuantizeLinear and DequantizeLinear removed",)
    assert [node.op_type for node in made.graph.node] == ["ReduceMax", "Cast", "If", "Identity"]
    x = np.float32([[0.04, -3, 2, 1], [5, 6, 7, -8]])
    np.testing.assert_array_equal(answer(made, x), np.maximum(x, 0))


@pytest.mark.parametrize(("zero", "limits"), [("low", (0, 25.5)), ("high", (-25.5, 0)), ("z", None)])
@pytest.mark.parametrize("before", ["Neg", "Relu"])
def test_what_an_end_at_zero_cuts_off_stays_cut_off(zero, limits, before):
    model = text(f"n = {before}(x)  q = QuantizeLinear(n, s, {zero})  d = DequantizeLinear(q, s, {zero})  y = Neg(d)")
    made, _ = surgeon.edit(model, StripQdq())
    x = np.float32([[0.04, -3, 2, 1], [50, 6, 7, -80]])
    held = -x if before == "Neg" else np.maximum(x, 0)
    if limits and before == "Neg":
        held = np.clip(held, *np.float32(limits))
    np.testing.assert_array_equal(answer(made, x), -held)


@pytest.mark.parametrize("message", ["<output_dtype = 3>(x, s)", "(x, s, zero)"])
def test_of_signed_integers_without_a_zero_point_0_is_no_end(message):
    """int8, as the operator says or the zero point of the other half of the pair."""
    body = f"q = QuantizeLinear{message}  d = DequantizeLinear(q, s)  y = Neg(d)"
    head = '<ir_version: 10, opset_import: ["" : 21]> g (float[2, 4] x) => (float[2, 4] y)'
    model = parse(f"{head} <float s = {{0.1}}, int8 zero = {{0}}> {{ {body} }}")
    made, _ = surgeon.edit(model, StripQdq())
    x = np.float32([[0.04, -3, 2, 1], [5, 6, 7, -8]])
    np.testing.assert_array_equal(answer(made, x), -x)


def test_a_stored_scalar_is_one_still():
    head = "(float[2, 4] x) => (float[2, 4] y) <int8 k = {3}, float s = {0.5}>"
    model = parse(f"{head} {{ d = DequantizeLinear(k, s)  y = Add(x, d) }}")
    made, _ = surgeon.edit(model, StripQdq())
    assert [list(tensor.dims) for tensor in made.graph.initializer] == [[]]
    assert answer(made, np.zeros((2, 4), np.float32)).tolist() == [[1.5] * 4] * 2


def test_a_clip_below_0_lets_pass_what_the_pair_cuts_off():
    model = parse(
        "(float[2, 4] x) => (float[2, 4] y) <float s = {0.1}, uint8 low = {0}, float a = {-1}, float b = {1}> "
        "{ c = Clip(x, a, b)  q = QuantizeLinear(c, s, low)  d = DequantizeLinear(q, s, low)  y = Neg(d) }"
    )
    made, _ = surgeon.edit(model, StripQdq())
    x = np.float32([[0.04, -3, 2, 1], [0.5, 6, 7, -0.5]])
    np.testing.assert_array_equal(answer(made, x), -np.clip(x, 0, 1))


def test_edits_beside_it_are_proved_and_what_is_not_stripped_is_reported(nets):
    _, quantised, path = nets
    _, report = surgeon.edit(quantised, [Rename("y", "z"), StripQdq()])
    assert [item.edit.flag for item in report.edits] == ["rename", "strip-qdq"]
    out = path.with_name("out.onnx")
    done = run("edit", path, out, "--strip-qdq")
    assert done.exit_code == 0, done.output
    assert "UNPROVED" in done.output
    assert "by how much: surgeon compare IN OUT" in " ".join(done.output.split())
    some = text(
        "q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  e = QuantizeLinear(d, s, z)  n = Neg(e)  "
        "y = DequantizeLinear(n, s, z)"
    )
    _, report = surgeon.edit(some, StripQdq())
    assert report.edits[0].said[1] == "2 of these nodes stay, because other nodes compute with their integers"


STORED = "int8[4, 8] q = {@}".replace("@", ", ".join(str(5 * i % 100 - 50) for i in range(32)))


@pytest.mark.parametrize(
    ("constants", "body"),
    [
        (f"{STORED}, float s = {{0.1}}", "d = DequantizeLinear(q, s) y = MatMul(x, d)"),
        (f"{STORED}, float[8] s = {{1, 2, 3, 4, 5, 6, 7, 0.3}}", "d = DequantizeLinear(q, s) y = MatMul(x, d)"),
        (
            f"{STORED}, float[2, 8] s = {{1, 2, 3, 4, 5, 6, 7, 8, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}}",
            "d = DequantizeLinear<axis = 0, block_size = 2>(q, s) y = MatMul(x, d)",
        ),
        (
            f"{STORED}, float s = {{0.1}}, int8 z = {{-3}}, int64[1] i = {{1}}",
            "d = DequantizeLinear(q, s, z) t = MatMul(x, d) r = Gather<axis = 0>(d, i) y = Add(t, r)",
        ),
    ],
    ids=["one scale", "one of each column", "in blocks", "read twice"],
)
def test_stored_integers_alone_are_proved(constants, body):
    """Nothing that is rounded at run time goes: the numbers are the same."""
    header = '<ir_version: 10, opset_import: ["" : 21]> g (float[n, 4] x) => (float[n, 8] y)'
    model = onnx.parser.parse_model(f"{header} <{constants}> {{ {body} }}")
    made, report = surgeon.edit(model, surgeon.edits.StripQdq())
    assert report.outcome == "proved"
    assert "DequantizeLinear" not in {node.op_type for node in made.graph.node}
