"""What a conversion keeps in the old dtype by what runs, formulas and kernels say."""

import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

import surgeon
from surgeon import CheckOptions
from surgeon.errors import CheckFailed
from surgeon.precision.measuring import baseline_runs
from surgeon.proof.model import exposed_outputs
from tests.half_models import converted, kept, model, ops, planted


def test_a_large_activation_is_found_and_kept():
    _, report = converted(planted(2e4))
    assert kept(report) == [("Mul", "range"), ("Mul", "range")]
    assert report.outcome == "proved"
    assert "'c' reaches" in report.kept[0].reason


def test_of_many_tensors_the_ranges_are_read_from_themselves(monkeypatch):
    """Two dozen nodes for each of 100,000 would be more than anything runs: what they hold says the same."""
    _, gauged = converted(planted(2e4))
    fetched: list[str] = []

    def noted(session, feeds, names):
        fetched.extend(names)
        return exposed_outputs.fetch(session, feeds, names)

    monkeypatch.setattr(baseline_runs, "_MAX_PROBES", 0)
    monkeypatch.setattr(baseline_runs, "fetch", noted)
    _, report = converted(planted(2e4))
    assert "c" in fetched
    assert report.kept == gauged.kept
    assert report.error == gauged.error


def test_without_auto_the_outputs_tell():
    with pytest.raises(CheckFailed, match="An output changes by"):
        converted(planted(6e4), keep=["op:Tanh"])


def test_bfloat16_has_the_range():
    _, report = converted(planted(2e4), to="bfloat16", max_error=0.05)
    assert (report.outcome, kept(report)) == ("proved", [])
    assert report.oracle == "ONNX Runtime with a rounding at each node"  # it has no kernels for the model itself


def test_a_variance_by_hand_is_kept_and_an_op_is_not():
    weights = """<int64[1] axes = {-1}, float two = {2.0}, float eps = {0.00001}, float[4] w = {1.0, 1.0, 2.0, 1.0},
                  float[4] b = {0.0, 0.0, 1.0, 0.0}>"""
    body = """m = ReduceMean(x, axes) d = Sub(x, m) p = Pow(d, two) v = ReduceMean(p, axes) e = Add(v, eps)
              s = Sqrt(e) n = Div(d, s) k = Mul(n, w) y = Add(k, b)"""
    made = model(body, weights=weights)
    _, report = converted(made)
    assert {item.op for item in report.kept if item.kind == "formula"} == {"Pow", "ReduceMean", "Add", "Sqrt"}
    _, fused = converted(made, rules="layer_norm")
    assert (fused.rules, list(fused.kept), fused.casts) == ({"layer_norm": 1}, [], 2)


def test_fills_of_masks_stay_finite_and_rows_that_are_all_masked_too():
    body = "f = Where(m, zero, low) a = Add(x, f) b = Add(a, f) y = Softmax(b)"
    made = model(body, "(float[N, 4] x, bool[N, 4] m) => (float[N, 4] y)",
                 weights="<float zero = {0}, float low = {-3.4028234663852886e38}>")
    result, report = converted(made)
    assert (report.outcome, kept(report)) == ("proved", [])
    session = ort.InferenceSession(result.SerializeToString(), providers=["CPUExecutionProvider"])
    answer = session.run(None, {"x": np.ones((1, 4), np.float32), "m": np.zeros((1, 4), bool)})[0]
    assert np.allclose(answer, 0.25)


def test_a_small_number_that_half_precision_loses_is_kept():
    _, report = converted(model("a = Add(x, tiny) y = Mul(a, a)", weights="<float tiny = {0.00000001}>"))
    assert [(item.op, item.kind) for item in report.kept] == [("Add", "weight")]
    assert "contains 1e-08" in report.kept[0].reason


def test_what_moves_the_outputs_most_is_kept():
    """A difference of numbers that are nearly one: nothing is out of range, and half precision keeps nothing of it."""
    body = "c = Mul(x, small) p = Add(c, k) d = Sub(p, k) e = Mul(d, big) f = Relu(x) g = Mul(f, f) y = Add(e, g)"
    weights = "<float small = {0.001}, float k = {100}, float big = {1000}>"
    _, report = converted(model(body, weights=weights))
    assert report.outcome == "proved"
    assert {item.kind for item in report.kept} == {"error"}
    assert len(report.kept) < 5


INSIDE = {
    "loop": """n = Constant<value_int = 3>() go = Constant<value = bool {1}>()
        y = Loop(n, go, x) <body = step (int64 i, bool more, float[N, 4] before) => (bool more_, float[N, 4] after) {
            more_ = Identity(more)  u = Mul(before, up)  after = Mul(u, down)
        }>""",
    "scan": """y = Scan(x) <num_scan_inputs = 1, scan_output_axes = [0], body = step (float[4] row) => (float[4] made) {
            u = Mul(row, up)  made = Mul(u, down)
        }>""",
    "branch": """c = Constant<value = bool {1}>()
        y = If(c) <then_branch = yes () => (float[N, 4] one) { u = Mul(x, up)  one = Mul(u, down) },
                   else_branch = no () => (float[N, 4] two) { two = Identity(x) }>""",
    "function": "a = local.deep(x) y = Tanh(a)",
    "branch of a loop": """n = Constant<value_int = 2>() go = Constant<value = bool {1}>()
        y = Loop(n, go, x) <body = step (int64 i, bool more, float[N, 4] before) => (bool more_, float[N, 4] after) {
            more_ = Identity(more)
            after = If(more) <then_branch = yes () => (float[N, 4] one) { a = local.deep(before) one = Relu(a) },
                              else_branch = no () => (float[N, 4] two) { two = Identity(before) }>
        }>""",
}
DEEP_HEAD = "(float[N, 4] q) => (float[N, 4] y)"
DEEP = """
<domain: "local", opset_import: ["" : 18, "local" : 1]> deep (x) => (y) { y = local.large (x) }
<domain: "local", opset_import: ["" : 18]> large (x) => (y)
    { up = Constant <value_float = 50000.0> () down = Constant <value_float = 0.00002> ()
      u = Mul (x, up) y = Mul (u, down) }
"""


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("where", INSIDE)
def test_an_overflow_inside_of_a_body_or_a_function_is_found(where, opset):
    weights = "<float up = {50000.0}, float down = {0.00002}>"
    functions = DEEP.replace('"" : 18', f'"" : {opset}')
    body = f"x = Tanh(q) {INSIDE[where]}"
    made = model(body, DEEP_HEAD, opset, more=', "local" : 1', weights=weights, functions=functions)
    _, report = converted(made)
    assert report.outcome == "proved"
    assert kept(report) == [("Mul", "range"), ("Mul", "range")]
    assert {item.reason.partition(" reaches ")[0] for item in report.kept} == {"'u'"}


def test_a_body_that_no_run_enters_is_kept():
    body = f"x = Tanh(q) {INSIDE['loop']}".replace("value_int = 3", "value_int = 0")
    made = model(body, DEEP_HEAD, weights="<float up = {50000.0}, float down = {0.00002}>")
    _, report = converted(made, keep=["auto"])
    assert report.outcome == "proved"
    assert [item.reason.partition(",")[0] for item in report.kept] == ["no run enters this body"] * 2


@pytest.mark.parametrize(
    ("ep", "ops"), [("cuda", {"Det"}), ("DmlExecutionProvider", {"Det"}), ("cpu", {"Det", "MatMul"})]
)
def test_an_op_without_a_half_kernel_on_the_provider_is_kept(ep, ops):
    """The CPU's computes a product in float32, with Casts around."""
    body = "r = Reshape(x, shape) d = Det(q) c = MatMul(r, w) e = Add(c, d) y = Where(m, e, c)"
    head = "(float[N, 4] x, float[4, 4] q, bool[4] m) => (float[N, 4] y)"
    weights = "<int64[2] shape = {0, -1}, float[4, 4] w = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}>"
    _, report = converted(model(body, head, weights=weights), ep=ep)
    reported = {item.op: item.reason for item in report.kept if item.kind == "kernel"}
    assert ops <= set(reported)
    assert "provider has no kernel for Det in float16" in reported["Det"]
    assert "Det" not in {item.op for item in converted(model(body, head, weights=weights))[1].kept}


def test_a_loss_whose_body_takes_no_bfloat16_is_kept():
    """ONNX writes SoftmaxCrossEntropyLoss, which may be of bfloat16, by NegativeLogLikelihoodLoss, which may not."""
    made = model("a = Tanh(x) y = SoftmaxCrossEntropyLoss(a, t)", "(float[N, 4] x, int64[N] t) => (float y)")
    _, report = converted(made, to="bfloat16")
    assert [(item.op, item.reason) for item in report.kept] == [
        ("SoftmaxCrossEntropyLoss", "the function body of SoftmaxCrossEntropyLoss in ONNX does not support bfloat16")
    ]
    assert [item.op for item in converted(made, to="float16")[1].kept] == []


@pytest.mark.parametrize(("order", "kept_ones"), [([1, 0, 2], ["MatMul"]), ([1, 2, 0], ["MatMul"]), ([0, 2, 1], [])])
def test_a_product_that_would_end_onnx_runtime_is_kept(order, kept_ones):
    """Its optimiser merges the Transpose into the product, and has no kernel for that in float16."""
    shape = [(5, 4, 4)[axis] for axis in order]
    text = f"a = Tanh(x) t = Transpose<perm = {order}>(a) y = MatMul(t, w)"
    made = model(text, f"(float[5, 4, 4] x) => (float[{shape[0]}, {shape[1]}, 3] y)")
    made.graph.initializer.append(numpy_helper.from_array(np.ones((shape[2], 3), np.float32), "w"))
    half, report = converted(made, keep=["auto"])
    assert [item.op for item in report.kept] == kept_ones
    assert [item.op for item in surgeon.convert(made, ep="cuda")[1].kept] == []
    program = "import sys, onnxruntime; onnxruntime.InferenceSession(sys.stdin.buffer.read())"
    subprocess.run([sys.executable, "-c", program], input=half.SerializeToString(), check=True)


def test_what_is_of_the_dtype_of_its_input_and_kept_keeps_that_too():
    """EyeLike without a dtype reads nothing but the shape and the dtype of what it is given."""
    body = "s = Shape(x) c = ConstantOfShape<value = float[1] {0}>(s) e = EyeLike(c) t = Tanh(x) y = Mul(t, e)"
    head = "(float[N, 4] x) => (float[N, 4] y)"
    half, report = converted(model(body, head), keep=["op:EyeLike"])
    assert [item.op for item in report.kept] == ["EyeLike"]
    onnx.checker.check_model(half, full_check=True)


def test_another_domains_op_is_kept_where_no_cast_makes_the_dtype():
    """ONNX Runtime's Gelu takes bfloat16 at any opset, and ONNX has a Cast to that from opset 13 on."""
    made = model("y = com.microsoft.Gelu(x)", opset=11, more=', "com.microsoft" : 1')
    _, report = converted(made, to="bfloat16")
    message = "Cast supports bfloat16 from opset 13 of ai.onnx: surgeon upgrade IN OUT --opset 13"
    assert [(item.op, item.reason) for item in report.kept] == [("com.microsoft::Gelu", message)]
    assert [item.op for item in converted(made)[1].kept] == []


@pytest.mark.parametrize("to", ["float16", "bfloat16"])
def test_a_norm_whose_body_adds_a_float_is_kept(to):
    _, report = converted(model("a = Tanh(x) y = MeanVarianceNormalization<axes = [0, 1]>(a)"), to=to)
    assert [item.op for item in report.kept] == ["MeanVarianceNormalization"]


@pytest.mark.parametrize(("ep", "wanted"), [(None, ["Transpose", "Cast"]), ("cuda", ["Cast", "Transpose"])])
def test_where_a_cast_stands_beside_a_transpose_depends_on_what_runs_it(ep, wanted):
    """Each side of it breaks one of ONNX Runtime's fusions: in front on a CPU, behind on CUDA."""
    made = model("t = Transpose<perm = [1, 0, 2]>(x) s = Shape(t) y = MatMul(t, w)",
                 "(float[5, 4, 4] x) => (float[4, 5, 3] y, int64[3] s)")
    made.graph.initializer.append(numpy_helper.from_array(np.ones((4, 3), np.float32), "w"))
    half, _ = surgeon.convert(made, keep=[], ep=ep)
    assert [op for op in ops(half) if op in wanted][:2] == wanted


def test_what_the_target_does_not_take_in_half_precision_is_kept():
    """TensorRT's parser takes a GRU with lengths in float32 alone."""
    body = "y = GRU<hidden_size = 4>(a, w, r, , lengths)"
    head = "(float[5, 2, 3] x, int32[2] lengths) => (float[5, 1, 2, 4] y)"
    made = model(f"a = Tanh(x) {body}", head)
    for name, width in (("w", 3), ("r", 4)):
        made.graph.initializer.append(numpy_helper.from_array(np.full((1, 12, width), 0.1, np.float32), name))
    assert kept(surgeon.convert(made, ep="tensorrt")[1]) == [("GRU", "kernel")]
    assert kept(surgeon.convert(made)[1]) == []


def test_what_an_engine_runs_in_float32_is_reported():
    """And Casts that do nothing; a model of float32 is told nothing of the kind."""
    body = """a = Mul(x, x) u = Cast<to = 1>(a) e = Exp(u) d = Cast<to = 10>(e) f = Cast<to = 10>(d) g = Cast<to = 1>(f)
              h = Cast<to = 10>(g) k = Softmax(h) y = Mul(k, x)"""
    found = surgeon.check(model(body, "(float16[N, 4096] x) => (float16[N, 4096] y)"), "tensorrt", load=False)
    reported = {item.op.removeprefix("ai.onnx::"): item.reason for item in found if "float16" in item.reason}
    reasons = " ".join(item.reason for item in found)
    assert "it computes in float32 in a half-precision model" in reasons
    assert "it casts float16 to itself" in reported["Cast"] or "undoes the Cast" in reasons
    assert "it sums 4,096 exponentials in float16" in reported["Softmax"]
    assert all(not item.stops for item in found)
    assert not surgeon.check(model("a = Exp(x) y = Mul(a, a)"), "tensorrt", load=False)


def test_what_a_node_fills_its_output_with_is_a_fill_too():
    """Two masks that meet do not overflow, and rows that are all masked stay numbers; with roundings at nodes too."""
    body = """s = Shape(x) f = ConstantOfShape<value = float[1] {-3.4028234663852886e38}>(s) z = Sub(x, x)
        a = Where(m, z, f) b = Add(a, f) y = Softmax(b)"""
    result, report = converted(model(body, "(float[N, 4] x, bool[N, 4] m) => (float[N, 4] y)"))
    assert (report.outcome, kept(report)) == ("proved", [])
    assert report.oracle == "ONNX Runtime and with a rounding at each node"
    session = ort.InferenceSession(result.SerializeToString(), providers=["CPUExecutionProvider"])
    answer = session.run(None, {"x": np.ones((1, 4), np.float32), "m": np.zeros((1, 4), bool)})[0]
    assert np.allclose(answer, 0.25)


def test_a_node_that_fills_with_too_much_is_kept():
    body = "s = Shape(x) f = ConstantOfShape<value = float[1] {1000000.0}>(s) d = Div(x, f) y = Mul(d, x)"
    made = model(body)
    for keep in (["auto"], ["name:y"]):
        _, report = converted(made, keep=keep, max_error=0.05)
        reported = {item.op: item.kind for item in report.kept}
        assert (reported["ConstantOfShape"], reported["Div"]) == ("weight", "weight")


def test_every_node_of_mixed_dtypes_is_reported():
    """What adds or multiplies in float32 between halves, and what no engine takes."""
    body = "c = Cast<to = 1>(x) a = Mul(c, z) b = Add(a, z) t = Transpose(b) d = Cast<to = 10>(t) y = Exp(d)"
    found = surgeon.check(model(body, "(float16[4, 4] x, float[4, 4] z) => (float16[4, 4] y)"), "tensorrt", load=False)
    reported = {item.op for item in found if "it computes in float32" in item.reason}
    assert reported == {"ai.onnx::Mul", "ai.onnx::Add"}
    mixed = model("y = Mul(x, z)", "(float16[4, 4] x, float[4, 4] z) => (float16[4, 4] y)")
    (reported,) = surgeon.check(mixed, "tensorrt", load=False)
    assert reported.stops
    assert "it mixes float16 with float32" in reported.reason


def test_a_cast_behind_a_dequantisation_is_reported():
    body = "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) c = Cast<to = 10>(d) y = Mul(c, c)"
    made = model(body, "(float[4, 4] x) => (float16[4, 4] y)", opset=19, weights="<float s = {0.1}, int8 z = {0}>")
    reasons = " ".join(item.reason for item in surgeon.check(made, "tensorrt", load=False))
    assert "a Cast separates it from its consumer" in reasons


LONG = "(float[N, 4096] x) => (float[N, M] y)"
SENSITIVE = {
    "a long sum": (LONG, "a = Tanh(x) b = Mul(a, c) s = ReduceSum(b, axes) y = Mul(s, d)", "ReduceSum", "sum",
                   "it adds 4,096 numbers"),
    "a long softmax": (LONG, "a = Tanh(x) y = Softmax(a)", "Softmax", "sum", "a softmax over 4,096"),
    "a small divisor": (LONG, "a = Tanh(x) b = Mul(a, d) q = Mul(b, b) r = Add(q, q) y = Div(q, r)", "Div", "range",
                        "'r' goes down to"),
    "a logarithm of little": (LONG, "a = Sigmoid(x) b = Mul(a, d) q = Mul(b, b) y = Log(q)", "Log", "range",
                              "'q' goes down to"),
    "a wide angle": (LONG, "a = Tanh(x) b = Mul(x, c) e = Cos(b) y = Add(e, a)", "Cos", "range", "the angle reaches"),
}


COUNTED = "s = Shape<start = 0, end = 1>(x) t = Squeeze(s) p = Range(z, t, o)"


def test_a_branch_that_no_run_takes_is_kept():
    """Of its numbers nothing is known; of those of the other branch enough."""
    text = """c = Greater(t, k) y = If(c) <
        then_branch = yes () => (float[N, 4] e1) { a = Mul(x, b) d = Abs(a) e1 = Sqrt(d) },
        else_branch = no () => (float[N, 4] e2) { f = Tanh(x) e2 = Mul(f, x) }>"""
    head = "(float[N, 4] x, float t) => (float[N, 4] y)"
    _, report = converted(model(text, head, weights="<float k = {12345.0}, float b = {100.0}>"))
    assert {item.op for item in report.kept} >= {"Mul", "Abs", "Sqrt"}
    assert "no run enters this body" in {item.op: item for item in report.kept}["Sqrt"].reason
    assert "Tanh" not in {item.op for item in report.kept}


@pytest.mark.parametrize("places", ["p = Identity(q)", COUNTED])
def test_angles_of_places_are_kept_however_few_are_tried(places):
    """What is right of five places is wrong of three thousand."""
    text = f"{places} f = Cast<to = 1>(p) u = Unsqueeze(f, axes) a = Mul(u, c) e = Sin(a) y = Mul(x, e)"
    head = "(float[N, 4] x, int64[N] q) => (float[N, 4] y)"
    made = model(text, head, weights="<int64[1] axes = {-1}, float c = {0.1}, int64 z = {0}, int64 o = {1}>")
    _, report = converted(made)
    found = {item.op: item for item in report.kept}
    assert {"Cast", "Mul", "Sin"} <= found.keys()
    assert "depends on positions" in found["Sin"].reason


@pytest.mark.parametrize("case", SENSITIVE)
def test_what_is_sensitive_is_kept_with_its_number(case):
    head, body, op, kind, words = SENSITIVE[case]
    made = model(body, head, weights="<int64[1] axes = {-1}, float c = {200.0}, float d = {0.001}>")
    _, report = converted(made, check="model", max_error=0.05)
    found = {item.op: item for item in report.kept}
    assert (found[op].kind, words in found[op].reason) == (kind, True)


def test_what_a_long_input_alone_shows_is_found():
    """A sum over rows, of which usual inputs have few."""
    body = "a = Tanh(x) b = Mul(a, c) s = ReduceMean<keepdims = 0>(b, axes) y = Mul(s, d)"
    weights = "<int64[1] axes = {1}, float c = {3000}, float d = {0.001}>"
    made = model(body, "(float[N, S, 4] x) => (float[N, 4] y)", weights=weights)
    (reason,) = [item.reason for item in converted(made)[1].kept if item.op == "ReduceMean"]
    assert int(reason.removeprefix("it adds ").partition(" ")[0]) >= 16
    chosen = surgeon.CheckOptions(dims={"S": 2})
    assert "ReduceMean" not in {item.op for item in converted(made, options=chosen)[1].kept}


def test_norms_that_are_one_op_are_not_sensitive():
    """They compute in float32 inside, whatever they are given."""
    body = "a = Mul(x, c) b = LayerNormalization<axis = -1>(a, s) y = Tanh(b)"
    _, report = converted(model(body, weights="<float c = {200.0}, float[4] s = {1, 1, 1, 1}>"))
    assert (report.outcome, list(report.kept)) == ("proved", [])


@pytest.mark.parametrize("counts", ["t = Range(zero, most, one)", "t = CumSum(v, start)"])
def test_an_angle_that_follows_a_range_or_a_running_sum_is_kept(counts):
    """As exporters write positions that are floats from the start, and vocoders a phase."""
    weights = """<float[1, 4] rates = {1, 0.1, 0.01, 0.001}, int64[1] ax = {1}, int64 start = {0}, float zero = {0},
        float one = {1}>"""
    body = f"most = Cast<to = 1>(n) v = Tanh(x) {counts} u = Unsqueeze(t, ax) a = Mul(u, rates) y = Cos(a)"
    made = model(body, "(int64 n, float[N] x) => (float[M, 4] y)", weights=weights)
    _, report = converted(made)
    assert {"Unsqueeze", "Mul", "Cos"} <= {item.op for item in report.kept}


def test_an_angle_that_follows_an_input_of_floats_is_kept():
    """As the time of a diffusion model, which is a thousand where made inputs are one."""
    weights = "<float[1, 4] rates = {1.0, 0.1, 0.01, 0.001}, int64[1] ax = {1}>"
    body = "u = Unsqueeze(t, ax) a = Mul(u, rates) y = Sin(a)"
    made = model(body, "(float[N] t) => (float[N, 4] y)", weights=weights)
    _, report = converted(made)
    assert {item.op for item in report.kept} == {"Unsqueeze", "Mul", "Sin"}
    made = model("h = Tanh(x) a = Mul(h, rates) y = Sin(a)", weights=weights)
    _, report = converted(made)
    assert not report.kept


SAMPLING = "t = Tanh(p) g = Mul(t, k) s = GridSample<mode = \"bilinear\">(x, g) y = Mul(s, k)"


@pytest.mark.parametrize(
    ("sizes", "dims", "ops"),
    [("H, W", {}, {"Tanh", "Mul", "GridSample"}), ("6, 6", {}, set()), ("H, W", {"H": 6, "W": 6}, set())],
)
def test_places_in_pictures_of_any_size_are_kept(sizes, dims, ops):
    """In one of 1,024 float16 misses by a tenth of a pixel, where made ones are small."""
    head = f"(float[1, 2, {sizes}] x, float[1, 4, 4, 2] p) => (float[1, 2, 4, 4] y)"
    made = model(SAMPLING, head, opset=16, weights="<float k = {0.5}>")
    _, report = converted(made, options=CheckOptions(dims=dims))
    assert report.outcome == "proved"
    assert {item.op for item in report.kept} == ops


def test_boxes_in_a_picture_of_any_size_are_kept():
    head = "(float[N, 2, H, W] x, float[K, 4] b, int64[K] i) => (float[K, 2, A, B] y)"
    made = model("t = Relu(x) r = RoiAlign(t, b, i) y = Exp(r)", head)
    _, report = converted(made)
    assert [item.op for item in report.kept] == ["RoiAlign"]
    assert "an image of H by W" in report.kept[0].reason
