"""Each fp16 segment is compared with float64, and nodes are kept where it fails."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import surgeon
from surgeon.display.content.conversion import segment_lines
from surgeon.precision.convert_report import MAX_MEANINGFUL_ERROR, SegmentProof, unproved_text
from surgeon.precision.delta_debugging import KeepMinimizer
from surgeon.precision.segments import segment_proofs
from surgeon.precision.segments.segment_proofs import MIN_NODES, Segments
from surgeon.precision.segments.segment_run import MARGIN, SegmentJob, compare_with_float64
from surgeon.runtime.processes.worker import TaskResult
from surgeon.testing import parse
from tests.command_line import ROOT
from tests.half_models import converted, model

LAYER = "a{0} = MatMul(h{0}, w{0}) b{0} = Tanh(a{0}) c{0} = Sigmoid(b{0}) d{0} = Add(c{0}, h{0}) h{1} = Relu(d{0})"


def layers(count):
    """Layers that are equal but for their weights."""
    body = " ".join(LAYER.format(place, place + 1) for place in range(count)) + f" y = Identity(h{count})"
    made = model(body, "(float[N, 8] h0) => (float[N, 8] y)")
    rng = np.random.default_rng(0)
    for place in range(count):
        weight = rng.normal(size=(8, 8)).astype(np.float32)
        made.graph.initializer.append(numpy_helper.from_array(weight, f"w{place}"))
    return made


def test_equal_segments_are_run_once():
    _, report = converted(layers(20))
    assert {item.outcome for item in report.stretches} == {"proved"}
    assert sum(item.nodes * item.equal for item in report.stretches) >= 5 * 20
    assert len(report.stretches) < sum(item.equal for item in report.stretches)
    assert all(item.nodes >= MIN_NODES for item in report.stretches[:-1])
    assert all(0 < item.error <= item.allowed < 0.1 for item in report.stretches)


def test_what_a_rule_wrote_of_an_attention_is_run_in_float64():
    """Operators of ONNX Runtime that onnx's evaluator knows by our formulas alone."""
    path = ROOT / "notebooks" / "models" / "tiny_distilbert.onnx"
    half, report = surgeon.convert(onnx.load(path), rules="attention", ep="cuda")
    assert {node.op_type for node in half.graph.node} & {"MultiHeadAttention"}
    assert {item.outcome for item in report.stretches} == {"proved"}


def test_sizes_that_a_segment_is_fed_with_are_stated():
    """ONNX Runtime refuses a Resize of which nobody knows how many sizes it is given."""
    made = model(
        'i = Identity(sizes) r = Resize <mode = "linear"> (table, , , i) y = Add(r, x)',
        "(float[2, 3, 8] x) => (float[2, 3, 8] y)",
        opset=17,
    )
    sizes, table = np.array([2, 3, 8]), np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    made.graph.initializer.extend([numpy_helper.from_array(sizes, "sizes"), numpy_helper.from_array(table, "table")])
    _, report = converted(made)
    assert [item.outcome for item in report.stretches] == ["proved"]


def test_a_segment_ends_before_its_weights_are_too_much(monkeypatch):
    """Each layer reads 128 bytes: two fit, and one that takes more by itself is told."""
    monkeypatch.setattr(segment_proofs, "MAX_BYTES", 300)
    _, report = converted(layers(20))
    assert {item.outcome for item in report.stretches} == {"proved"}
    assert max(item.nodes for item in report.stretches) <= 3 * 5 - 1
    assert sum(item.nodes * item.equal for item in report.stretches) >= 5 * 20


def test_weights_that_are_too_much_are_reported(monkeypatch):
    """Where they are of no product of a matrix."""
    monkeypatch.setattr(segment_proofs, "MAX_BYTES", 100)
    made = model("c = Conv(x, w) y = Tanh(c)", "(float[1, 3, 5, 5] x) => (float[1, 3, 3, 3] y)")
    made.graph.initializer.append(numpy_helper.from_array(np.full((3, 3, 3, 3), 0.1, np.float32), "w"))
    _, report = converted(made)
    assert [item.outcome for item in report.stretches] == ["unproved", "proved"]
    assert "its weights take" in "".join(segment_lines(report))


PRODUCTS = {
    "MatMul": ("MatMul(x, w)", (8, 60)),
    "of a matrix with its axes swapped": ("MatMul(x, t)", (60, 8)),
    "Gemm": ("Gemm <transB = 1, alpha = 0.5> (x, w, bias)", (60, 8)),
    "of several matrices": ("MatMul(x, w)", (4, 8, 15)),
}


@pytest.mark.parametrize(("product", "shape"), PRODUCTS.values(), ids=PRODUCTS)
def test_a_matrix_that_is_too_large_is_run_in_blocks_of_columns(monkeypatch, product, shape):
    """All of them, and each once."""
    seen = []
    monkeypatch.setattr(segment_proofs, "MAX_BYTES", 400)
    monkeypatch.setattr(segment_proofs, "BLOCK_BYTES", 200)
    monkeypatch.setattr(
        segment_proofs, "SegmentJob", lambda *given, **more: seen.append(given[0]) or SegmentJob(*given, **more)
    )
    turned = "t = Transpose <perm = [1, 0]> (w) g = Gather(w, i) " if "t)" in product else ""
    made_of = "float[N, 60]" if len(shape) == 2 else "float[4, N, 15]"
    made = model(f"{turned}p = {product} y = Identity(p)", f"(float[N, 8] x, int64[1] i) => ({made_of} y)")
    rng = np.random.default_rng(0)
    weight, bias = (rng.normal(size=size).astype(np.float32) for size in (shape, (60,)))
    made.graph.initializer.extend([numpy_helper.from_array(weight, "w"), numpy_helper.from_array(bias, "bias")])
    _, report = converted(made)
    assert [item.outcome for item in report.stretches] == ["proved"]
    blocks = [numpy_helper.to_array(run.graph.initializer[-1 if "t)" in product else 0]) for run in seen]
    assert len(blocks) > 1
    whole = np.concatenate(blocks, axis=0 if "transB" in product else -1)
    assert np.array_equal(whole, (weight.T if "t)" in product else weight).astype(np.float16))
    biases = [item.dims[0] for run in seen for item in run.graph.initializer if item.name == "bias"]
    assert sum(biases) == 60 * ("bias" in product)


@pytest.mark.parametrize("bad", [{"error": 2.0, "allowed": 0.01}, {"why": "it broke"}, {"error": 0.01, "allowed": 0.9}])
def test_a_product_is_as_good_as_the_worst_of_its_blocks(monkeypatch, bad):
    """Wherever that is."""
    monkeypatch.setattr(segment_proofs, "MAX_BYTES", 400)
    monkeypatch.setattr(segment_proofs, "BLOCK_BYTES", 400)
    made = model("p = MatMul(x, w) y = Identity(p)", "(float[N, 8] x) => (float[N, 60] y)")
    made.graph.initializer.append(numpy_helper.from_array(np.ones((8, 60), np.float32), "w"))
    good = {"error": 0.001, "allowed": 0.01}

    def run(tasks, _):
        return [TaskResult(bad if place == 1 else good, []) for place, _ in enumerate(tasks)]

    monkeypatch.setattr(segment_proofs.worker_pool, "run", run)
    _, report = converted(made, keep=["op:Identity"])
    assert report.outcome != "proved"


def test_segments_that_differ_in_a_small_constant_are_not_equal():
    """Also where its elements are not stored raw."""
    body = "a = Mul(x, x) b = Reshape(a, s) c = Tanh(b) d = Exp(c) e = Mul(d, d) f = Reshape(e, t) y = Tanh(f)"
    made = model(body, weights="<int64[2] s = {-1, 2}, int64[2] t = {-1, 4}>")
    assert not any(tensor.raw_data for tensor in made.graph.initializer)
    _, report = converted(made, keep=["op:Exp"])
    assert [(item.first, item.last, item.equal) for item in report.stretches] == [("a", "c", 1), ("e", "y", 1)]


def test_a_segment_ends_where_a_cast_stands():
    _, report = converted(model("a = Mul(x, x) b = Exp(a) c = Mul(b, b) y = Tanh(c)"), keep=["op:Exp"])
    assert [(item.first, item.last, item.nodes) for item in report.stretches] == [("a", "a", 1), ("c", "y", 2)]
    assert {item.outcome for item in report.stretches} == {"proved"}


def half(nodes, outputs=("y",)):
    """Nodes as a stretch of float16."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT16, None)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, None) for name in outputs]
    return helper.make_model(helper.make_graph(nodes, "g", inputs, ends), opset_imports=[helper.make_opsetid("", 18)])


def held(nodes, x):
    """What came of a stretch on one input."""
    feeds = {"x": np.asarray(x, np.float16)}
    return compare_with_float64(SegmentJob(half(nodes), feeds, TensorProto.FLOAT16, (), b""), lambda _: None)[0]


def test_roundings_are_allowed_and_an_overflow_is_not():
    nodes = [helper.make_node("Add", ["x", "x"], ["a"]), helper.make_node("Tanh", ["a"], ["y"])]
    small = held(nodes, np.linspace(-2, 2, 64))
    assert 0 < small["error"] <= small["allowed"] < 0.01
    large = held([nodes[0], helper.make_node("Identity", ["a"], ["y"])], [1.0, 60000.0])
    assert (large["output"], large["error"] > 1e6) == ("y", True)


def test_what_is_below_the_lowest_number_is_a_fill():
    nodes = [helper.make_node("Add", ["x", "x"], ["y"])]
    assert held(nodes, [1.0, -60000.0])["error"] == 0


def test_what_roundings_leave_nothing_of_is_unproved():
    """A difference of numbers that are nearly one: nobody can tell whether it is right."""
    body = "c = Mul(x, small) p = Add(c, k) d = Sub(p, k) y = Mul(d, big)"
    made = model(body, weights="<float small = {0.001}, float k = {100}, float big = {1000}>")
    _, report = converted(made, keep=(), max_error=100.0)
    (stretch,) = report.stretches
    assert (stretch.outcome, stretch.allowed > MAX_MEANINGFUL_ERROR) == ("unproved", True)
    assert "rounding dominates its outputs" in "".join(segment_lines(report))


def test_a_segment_that_is_off_is_kept(monkeypatch):
    """All that are equal to it too."""
    made, asked = layers(20), []
    run = Segments.proofs

    def proofs(self, parts, *rest):
        found = run(self, parts, *rest)
        asked.append(len(parts))
        return [replace(found[0], error=1.0), *found[1:]] if len(asked) == 1 else found

    monkeypatch.setattr(Segments, "proofs", proofs)
    _, report = converted(made)
    assert {item.kind for item in report.kept} == {"stretch"}
    assert "an output is off by 1 of its scale, but rounding explains only" in report.kept[0].reason
    assert {item.outcome for item in report.stretches} == {"proved"}


BRANCHES = """c = Less(s, zero) a = Mul(x, x) e = If(c) <then_branch = yes () => (float[N, 4] e1) { e1 = Exp(a) },
    else_branch = no () => (float[N, 4] e2) { b = Mul(a, a) e2 = Sin(b) }> y = Relu(e)"""
TURNS = """y = Loop(n, t, x) <body = b (int64 i, bool d, float[N, 4] h) => (bool d2, float[N, 4] h2) {
    d2 = Identity(d) q = Tanh(h) h2 = Mul(q, x) }>"""
STEPS = """h, y = Scan<num_scan_inputs = 1, body = b (float[4] g, float[4] u) => (float[4] g2, float[4] v) {
    k = Add(g, u) g2 = Tanh(k) v = Sin(k) }>(first, x) z = Relu(h)"""
INSIDE = {
    "branches": (BRANCHES, "(float[N, 4] x, float s) => (float[N, 4] y)", "<float zero = {0}>"),
    "turns": (TURNS, "(float[N, 4] x, int64 n) => (float[N, 4] y)", "<bool t = {1}>"),
    "steps": (STEPS, "(float[4] first, float[N, 4] x) => (float[N, 4] y, float[4] z)", ""),
}


@pytest.mark.parametrize("case", INSIDE)
def test_a_segment_with_bodies_is_held_with_what_they_round(case):
    """Nothing else in the last two rounds."""
    body, head, weights = INSIDE[case]
    _, report = surgeon.convert(model(body, head, weights=weights))
    (stretch,) = report.stretches
    assert (stretch.outcome, stretch.reason) == ("proved", "")
    assert 0 < stretch.error <= stretch.allowed < 0.1


def test_roundings_in_bodies_are_what_explains_it():
    """Of a loop whose turns each halve a number and add it up: without them there is no room for what it is off."""
    body = """b (int64 i, bool d, float16[N] h) => (bool d2, float16[N] h2) {
        d2 = Identity(d) q = Tanh(h) h2 = Mul(q, x) }"""
    text = f"""<ir_version: 9, opset_import: ["": 18]> g (float16[N] x, int64 n) => (float16[N] y) <bool t = {{1}}> {{
        y = Loop(n, t, x) <body = {body}> }}"""
    feeds = {"x": np.linspace(0.5, 1.5, 64).astype(np.float16), "n": np.array(9)}
    run = SegmentJob(parse(text), feeds, TensorProto.FLOAT16, (), b"")
    found = compare_with_float64(run, lambda _: None)[0]
    assert found["error"] <= found["allowed"]
    narrow = MARGIN * 2 * np.finfo(np.float16).eps  # what is left for two roundings
    assert found["allowed"] > narrow


def test_an_overflow_in_a_body_is_no_rounding():
    """Also where the next node takes it back, as float64 does."""
    body = """b (int64 i, bool d, float16[N] h) => (bool d2, float16[N] h2) {
        d2 = Identity(d) q = Mul(h, up) h2 = Mul(q, down) }"""
    text = f"""<ir_version: 9, opset_import: ["": 18]> g (float16[N] x, int64 n) => (float16[N] y)
        <bool t = {{1}}, float16 up, float16 down> {{ y = Loop(n, t, x) <body = {body}> }}"""
    made = parse(text)
    del made.graph.value_info[:]
    for name, value in (("up", 4e4), ("down", 2.5e-5)):
        made.graph.initializer.append(numpy_helper.from_array(np.float16(value), name))
    feeds = {"x": np.linspace(0.5, 4.0, 64).astype(np.float16), "n": np.array(2)}
    found = compare_with_float64(SegmentJob(made, feeds, TensorProto.FLOAT16, (), b""), lambda _: None)[0]
    assert found["error"] > 1e6 > found["allowed"]


def test_weights_of_bodies_and_functions_come_along(tmp_path):
    """They lie in the file, and are no initializers of the graph."""
    head = "(float[N, 64] x, float s) => (float[N, 64] y)"
    made = model(
        """c = Less(s, zero) h = If(c) <then_branch = yes () => (float[N, 64] e1) { e1 = MatMul(x, v) },
        else_branch = no () => (float[N, 64] e2) { e2 = Sin(x) }> y = acme.scaled(h)""",
        head,
        weights="<float zero = {0}>",
        more=', "acme" : 1',
    )
    weight = numpy_helper.from_array(np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32), "v")
    made.graph.node[1].attribute[0].g.initializer.append(weight)
    nodes = [
        helper.make_node("Constant", [], ["w"], value=weight),
        helper.make_node("MatMul", ["a", "w"], ["b"]),
    ]
    ops = [helper.make_opsetid("", 18)]
    made.functions.append(helper.make_function("acme", "scaled", ["a"], ["b"], nodes, ops))
    onnx.save(made, tmp_path / "net.onnx")
    _, report = surgeon.convert(tmp_path / "net.onnx", output=tmp_path / "half.onnx")
    (stretch,) = report.stretches
    assert (stretch.outcome, stretch.reason, stretch.nodes) == ("proved", "", 2)


def test_a_segment_that_is_off_is_kept_with_what_lies_inside(monkeypatch):
    """Bodies, and functions that it calls."""
    body, head, weights = INSIDE["branches"]
    run = Segments.proofs

    def proofs(self, parts, *rest):
        return [replace(proof, error=1.0) for proof in run(self, parts, *rest)]

    monkeypatch.setattr(Segments, "proofs", proofs)
    _, report = surgeon.convert(model(body, head, weights=weights))
    assert {item.node for item in report.kept if item.kind == "stretch"} >= {"a", "e", "e1"}


@pytest.mark.parametrize("opset", [7, 9, 10])
@pytest.mark.parametrize("body", ["a = Mul(x, x) y = Tanh(a)", "a = Clip<min = 0.25>(x) y = Exp(a)"])
def test_a_segment_of_an_old_opset_is_run_as_one_of_a_newer(body, opset):
    """Roundings are told from opset 11 on, in which Clip reads its bounds."""
    _, report = surgeon.convert(model(body, opset=opset))
    (stretch,) = report.stretches
    assert (stretch.outcome, stretch.reason) == ("proved", "")
    assert 0 < stretch.error <= stretch.allowed < 0.1


def test_why_a_segment_of_an_old_opset_is_not_run_is_reported():
    body = "a = Mul(x, x) y = Resize(a, s)"
    head, weights = "(float[1, 1, 4, 4] x) => (float[1, 1, 8, 2] y)", "<float[4] s = {1, 1, 2, 0.5}>"
    made = model(body, head, weights=weights, opset=10)
    _, report = surgeon.convert(made)
    assert "can be computed only from opset 11: Opset 11" in "".join(segment_lines(report))


@pytest.mark.parametrize("guilty", [{3}, {3, 17}, {0, 1, 2, 30}, set(range(8, 14))])
def test_no_more_is_kept_than_moves_the_outputs(guilty):
    """Whichever parts they lie in."""
    places = [((), place) for place in range(31)]
    parts = [places[:4], places[4:20], places[20:21], places[21:]]

    def error(kept):
        return 0.001 + sum(slot in guilty and ((), slot) not in kept for slot in range(31))

    search = KeepMinimizer(parts, error, 0.01)
    search.run()
    assert search.error_by_node.keys() == {((), slot) for slot in guilty}
    assert search.final_error == 0.001


def test_the_shipped_model_has_equal_layers():
    _, report = surgeon.convert(onnx.load(ROOT / "notebooks" / "models" / "tiny_distilbert.onnx"))
    assert max(item.equal for item in report.stretches) > 1
    assert report.to_dict()["stretches"][0]["outcome"] == "proved"


def test_what_nobody_reads_is_no_segment():
    """An engine drops it, and ONNX Runtime refuses a model without outputs."""
    made = model("a = Mul(x, x) y = Exp(a) m = ReduceMean(z, axes) d = Mul(m, m)",
                 "(float[N, 4] x, float[N, 4] z) => (float[N, 4] y)", weights="<int64[1] axes = {1}>")
    _, report = converted(made)
    assert [(item.first, item.outcome) for item in report.stretches] == [("a", "proved")]


LOSING = "c = Mul(x, small) p = Add(c, k) d = Sub(p, k) e = Mul(d, small) y = Add(e, x)"
"""Of one stretch nothing is left, and little of that reaches the output."""


def test_a_model_of_which_a_segment_is_not_proved_is_not_proved():
    """However near its outputs are; what asks for a proof gets nothing written."""
    made = model(LOSING, weights="<float small = {0.001}, float k = {100}>")
    settings = {"keep": ["name:e", "name:y"]}
    _, report = converted(made, **settings)
    assert report.error < report.max_error
    assert [item.outcome for item in report.stretches] == ["unproved"]
    assert (report.outcome, report.reason) == (
        "unproved",
        "The segment from c on is not proved: rounding dominates its outputs",
    )
    with pytest.raises(surgeon.CheckFailed, match="not proved: The segment from c on"):
        surgeon.convert(made, require_proof=True, **settings)


@pytest.mark.parametrize("outcome", ["failed", "unproved"])
def test_one_segment_of_many_is_enough(outcome):
    proved = SegmentProof("a", "b", 16, 3, error=0.001, allowed=0.01)
    other = {"failed": SegmentProof("c", "d", 16, 1, error=0.81, allowed=0.0146),
             "unproved": SegmentProof("c", "d", 16, 1, reason="no runtime here runs it")}[outcome]
    report = surgeon.ConvertReport("", "", ("float32", "float16"), converted=3, error=0.001, max_error=0.01)
    report.stretches = [proved]
    assert report.outcome == "proved"
    report.stretches = [proved, other]
    assert (other.outcome, report.outcome) == (outcome, "unproved")
    why = {"failed": "an output is off by 0.81 of its scale, but rounding explains only 0.015",
           "unproved": "no runtime here runs it"}[outcome]
    assert unproved_text(report.stretches) == f"1 of 4 segments is not proved; first the segment from c on: {why}"
