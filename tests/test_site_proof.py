"""What a proof looks at: which sizes and values it takes, what it says of them."""

import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import surgeon
from surgeon import CheckOptions, Graph, Tensor, rule
from surgeon.proof.check_result import Outcome
from surgeon.proof.site import both_sides, prove_region, site_prover
from surgeon.runtime.inputs.input_generator import InputGenerator
from surgeon.runtime.inputs.role_fills import TRAILING_MASK, USUAL
from surgeon.runtime.numerics.allowances import JudgeSettings
from surgeon.runtime.numerics.tensor_judge import judge_tensor
from surgeon.testing import parse
from tests.test_region_cuts import relu_once


def test_shapes_that_the_source_states_are_held_to():
    """Where x has one row and the table has many, the sum would be spread, which the source says it never is."""

    @rule(patterns=[lambda g, x, t: g.relu(g.mul(x, t))])
    def of_as_many(g: Graph, x: Tensor, t: Tensor) -> Tensor:
        rows = g.slice(g.shape(x), [0], [1], [0])
        return g.slice(g.max(g.mul(x, t), 0.0), [0], rows, [0])

    text = "(float[n, 4] x, float[m, 4] t) => (float[{rows}, 4] y) {{ a = Mul(x, t) y = Relu(a) }}"
    _, report = surgeon.rewrite(parse(text.format(rows="n")), of_as_many, keep_going=True)
    assert report.outcome == "proved"
    _, report = surgeon.rewrite(parse(text.format(rows="k")), of_as_many, keep_going=True)
    assert report.outcome == "failed"


def test_what_is_cut_from_the_end_by_no_rows_is_not_compared_with_a_rule():
    """x[:-m] is nothing for an m of 0; the source states that it has the other rows."""
    text = """(float[b, n, 4] x, float[b, m, 4] t) => (float[b, n, 4] y, float[b, m, 4] z)
        <int64[1] nil = {0}, int64[1] one = {1}> { c = Concat<axis = 1>(x, t) s = Shape<start = 1, end = 2>(t)
        e = Neg(s) p = Slice(c, nil, e, one) y = Relu(p) z = Neg(t) }"""
    _, report = surgeon.rewrite(parse(text), "slice_of_concat")
    assert report.outcome == "proved"


def test_several_sizes_one_among_them(monkeypatch):
    """Free dimensions take several small sizes, and those of --dim."""
    model = parse("(float[batch, seq] x) => (float[batch, seq] y) { a = Relu(x) y = Relu(a) }")
    seen = set()
    run = both_sides.BothSides.run

    def watched(self, feeds, *rest):
        seen.add(feeds["x"].shape)
        return run(self, feeds, *rest)

    monkeypatch.setattr(both_sides.BothSides, "run", watched)
    monkeypatch.setattr(site_prover, "needs_this_process", lambda _: True)  # here, where it can be watched
    surgeon.rewrite(model, relu_once)
    assert len(seen) >= 3
    assert (1, 1) in seen
    seen.clear()
    surgeon.rewrite(model, relu_once, options=CheckOptions(dims={"batch": 6}))
    assert {shape[0] for shape in seen} == {6}
    assert len({shape[1] for shape in seen}) > 1
    with pytest.raises(surgeon.UsageError, match="No input has a dynamic dimension 'bacth'"):
        surgeon.rewrite(model, relu_once, options=CheckOptions(dims={"bacth": 6}))


def test_the_body_of_an_if():
    text = """(float[n, 4] x, bool c) => (float[n, 4] y)
        { y = If (c) <then_branch = yes () => (float[n, 4] t) { a = Relu(x) t = Relu(a) },
                      else_branch = no () => (float[n, 4] e) { e = Neg(x) }> }"""
    _, report = surgeon.rewrite(parse(text), relu_once)
    assert report.outcome == "proved"
    assert report.sites[0].scope


def test_a_rank_that_only_a_run_reports():
    """Nothing states what a custom function of unknown shape makes; the model is run once to see."""
    text = """<ir_version: 8, opset_import: ["" : 17]> agraph (float[n, 4] x, int64[k] shape) => (float y)
        { r = Reshape(x, shape) a = Relu(r) b = Relu(a) y = ReduceSum<keepdims = 0>(b) }"""
    _, report = surgeon.rewrite(parse(text), relu_once)
    assert report.outcome == "proved", report.doubts


def test_a_random_node_is_unproved():
    @rule(patterns=[lambda g, x: g.relu(g.add(x, g.random_normal_like(x)))])
    def noisy(g: Graph, x: Tensor) -> Tensor:
        return g.max(g.add(x, g.random_normal_like(x)), 0.0)

    text = "(float[n, 4] x) => (float[n, 4] y) { r = RandomNormalLike(x) a = Add(x, r) y = Relu(a) }"
    _, report = surgeon.rewrite(parse(text), noisy)
    assert report.outcome == "unproved"
    why = "'y' differs between two runs (RandomNormalLike 'r' is random)"
    assert f"the original nodes are not deterministic: {why}" in report.doubts[0]


def test_what_the_rule_s_own_pattern_computes_alone_is_unproved_and_says_so():
    """Whatever it writes, its pattern agrees with itself."""

    @rule(patterns=[lambda g, x: g.mul(x, g.sigmoid(x))])
    def plugin(g: Graph, x: Tensor) -> Tensor:
        return g.op("trt.plugins::SiLU", x)

    _, report = surgeon.rewrite(parse("(float[n, 4] x) => (float[n, 4] y) { s = Sigmoid(x) y = Mul(x, s) }"), plugin)
    (proof,) = report.proofs
    assert (proof.outcome.value, proof.independent) == ("unproved", False)
    assert "own pattern" in proof.reason


@pytest.mark.parametrize(
    "body", ["y = SequenceConstruct(x, x)", "s = SequenceConstruct(x, x) y = SequenceInsert(s, x)"]
)
def test_a_tensor_is_no_sequence(body):
    """Nor a sequence of less the same: told as any other result that is wrong."""

    @rule(patterns=[lambda g, x: g.sequence_construct(x, x)])
    def one(g: Graph, x: Tensor) -> Tensor:
        return x if body.startswith("y") else g.sequence_construct(x)

    model = parse(f"(float[n, 4] x) => (seq(float[n, 4]) y) {{ {body} }}")
    with pytest.raises(
        surgeon.CheckFailed, match="a tensor on one side|len.s. = 1 instead of 2|does not load"
    ):
        surgeon.rewrite(model, one)


def test_bfloat16_has_no_kernel_and_is_proved_all_the_same():
    model = parse("(bfloat16[n, 4] x) => (bfloat16[n, 4] y) { a = Relu(x) y = Relu(a) }")
    _, report = surgeon.rewrite(model, relu_once)
    assert report.outcome == "proved"
    assert "ReferenceEvaluator" in report.proofs[0].oracle


@contextmanager
def room(more):
    """So many bytes of address space beyond today's, children included; no limit where none is known."""
    if sys.platform != "linux":
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_a_hundred_gigabytes_are_not_read(tmp_path):
    """Sparse external data: the weights are made up, and made smaller, or else there is no room for them."""
    hidden = 65536
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], name="mm"),
        helper.make_node("Relu", ["m"], ["a"], name="r1"),
        helper.make_node("Relu", ["a"], ["y"], name="r2"),
    ]
    weight = TensorProto(name="w", data_type=1, dims=[hidden, hidden * 6], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "w.bin"), ("length", str(hidden * hidden * 6 * 4))):
        entry = weight.external_data.add()
        entry.key, entry.value = key, value
    ports = [helper.make_tensor_value_info(name, 1, ["n", width]) for name, width in (("x", hidden), ("y", hidden * 6))]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "in.onnx")
    with open(tmp_path / "w.bin", "wb") as file:
        file.truncate(hidden * hidden * 6 * 4)

    @rule(patterns=[lambda g, x, w: g.relu(g.relu(g.matmul(x, w)))])
    def whole(g: Graph, x: Tensor, w: Tensor) -> Tensor:
        return g.relu(g.matmul(x, w))

    with room(8 << 30):
        _, report = surgeon.rewrite(tmp_path / "in.onnx", whole, output=tmp_path / "out.onnx")
    assert report.outcome == "proved"


def test_constants_keep_their_values():
    """A rule that holds for the constant in the file is right, and for another wrong."""

    @rule(patterns=[lambda g, x, c: g.relu(g.mul(x, c))])
    def needs_one(g: Graph, x: Tensor, c: surgeon.Constant) -> Tensor:
        return g.max(x, 0.0)

    text = "(float[n, 3] x) => (float[n, 3] y) <float[3] c = {1.0, 1.0, 1.0}> { a = Mul(x, c) y = Relu(a) }"
    _, report = surgeon.rewrite(parse(text), needs_one)
    assert report.outcome == "proved"
    with pytest.raises(surgeon.CheckFailed):
        surgeon.rewrite(parse(text.replace("1.0, 1.0, 1.0", "1.0, 1.0, 1.1")), needs_one)


def test_the_report_holds_the_numbers_of_both_sides():
    model = parse("(float[n, 4] x) => (float[n, 4] y) { a = Relu(x) y = Relu(a) }")
    _, report = surgeon.rewrite(model, relu_once)
    found = report.to_dict()
    (proof,) = found["proofs"]
    assert found["sites"][0]["proof"] == 0
    assert proof["outcome"] == "proved"
    assert proof["tolerance"]["float32 rtol"] == 2e-5
    assert set(proof["errors"][0]["rewritten"]) == {"max_abs", "max_rel", "max_ulp"}
    assert np.isfinite(proof["errors"][0]["allowed"])


# Kinds of values


@pytest.mark.parametrize(("wide", "narrow"), [("int64", TensorProto.INT32), ("int32", TensorProto.INT16)])
def test_integers_that_a_narrower_type_does_not_hold(wide, narrow):
    @rule(patterns=[lambda g, x, to: g.neg(g.cast(g.cast(x, to=narrow), to=to))])
    def without_casts(g: Graph, x: Tensor, to: int) -> Tensor:
        return g.neg(x)

    back = TensorProto.INT64 if wide == "int64" else TensorProto.INT32
    text = f"({wide}[n] x) => ({wide}[n] y) {{ a = Cast<to = {narrow}>(x) b = Cast<to = {back}>(a) y = Neg(b) }}"
    with pytest.raises(surgeon.CheckFailed) as caught:
        surgeon.rewrite(parse(text), without_casts)
    assert "integers of every length" in caught.value.report.rolled_back[0].proof.reason


@pytest.mark.parametrize("dtype", ["float", "float16"])
def test_an_epsilon_shows_in_small_numbers(dtype):
    epsilon, other = (1e-6, 1e-5) if dtype == "float" else (1e-4, 1e-5)

    @rule(patterns=[lambda g, x, s: g.neg(g.layer_normalization(x, s, None, axis=-1, epsilon=epsilon))])
    def other_epsilon(g: Graph, x: Tensor, s: Tensor) -> Tensor:
        return g.neg(g.layer_normalization(x, s, None, axis=-1, epsilon=other))

    text = f"""({dtype}[n, 8] x, {dtype}[8] s) => ({dtype}[n, 8] y)
        {{ h = LayerNormalization<axis = -1, epsilon = {epsilon}>(x, s) y = Neg(h) }}"""
    with pytest.raises(surgeon.CheckFailed, match=r"x\[0, \d\] = .* give y\[0, \d\] = "):
        surgeon.rewrite(parse(text), other_epsilon)


def test_what_is_far_below_zero_all_over():
    """An output of small numbers alone: beside larger ones the floor would be lost in the tolerance."""

    @rule(patterns=[lambda g, x: g.neg(g.exp(x))])
    def floored(g: Graph, x: Tensor) -> Tensor:
        return g.neg(g.max(g.exp(x), 1e-5))

    with pytest.raises(surgeon.CheckFailed) as caught:
        surgeon.rewrite(parse("(float[n, 8] x) => (float[n, 8] y) { e = Exp(x) y = Neg(e) }"), floored)
    assert "gives y[0, 0] = -1e-05 instead of -0.0" in caught.value.report.rolled_back[0].proof.reason


def test_masks_are_padded_from_either_side():
    """With a causal mask, rows that are padded from the left see nothing at first: a Softmax of those is NaN."""
    text = """(float[n, t] x, int64[n, t] attention_mask) => (float[n, t] y) <float one = {1.0}, float low = {-10000.0}>
        { c = Cast<to = 1>(attention_mask) d = Sub(one, c) e = Mul(d, low) y = Add(x, e) }"""
    plan = InputGenerator(parse(text))
    for fill, first in ((USUAL, 1), (TRAILING_MASK, 0)):
        mask = plan.generate(0, {"n": 16, "t": 6}, {"attention_mask": fill})["attention_mask"]
        assert set(mask.ravel()) == {0, 1}
        assert mask.any(axis=-1).all()
        assert {bool((np.diff(row) <= 0).all()) for row in mask if not row.all()} == {first == 1}


def test_nan_of_a_type_without_tolerance_is_equal_to_itself():
    array = np.array([1.0, np.nan, 4.0]).astype(ml_dtypes.float8_e8m0fnu)
    assert judge_tensor("y", array, array.copy(), None, 0.0).ok
    assert not judge_tensor("y", array, array[::-1].copy(), None, 0.0).ok


def test_where_the_original_overflows_infinities_may_meet():
    """Finite inputs, and a result that its dtype does not hold: -inf and NaN are both over the top."""
    original, rewritten = np.array([-np.inf, 1.0], np.float32), np.array([np.nan, 1.0], np.float32)
    reference = np.array([-1e60, 1.0])
    large = JudgeSettings(original.dtype, overflowing=True)
    assert judge_tensor("y", original, rewritten, reference, 0.0, large).ok
    assert not judge_tensor("y", original, rewritten, reference, 0.0).ok
    assert not judge_tensor("y", rewritten[::-1], rewritten, reference, 0.0, large).ok


def test_lists_of_tensors_are_no_inputs():
    """A run of the model tells the tensors of a list one by one; the region stays unproved, in a sentence."""

    @rule(patterns=[lambda g, s: g.relu(g.relu(g.concat_from_sequence(s, axis=0)))])
    def once(g: Graph, s: Tensor) -> Tensor:
        return g.relu(g.concat_from_sequence(s, axis=0))

    text = """(float[n, 4] x) => (float[m, 4] y)
        { s = SplitToSequence<axis = 0>(x) c = ConcatFromSequence<axis = 0>(s) a = Relu(c) y = Relu(a) }"""
    _, report = surgeon.rewrite(parse(text), once)
    assert report.outcome == "unproved"
    assert "'s' is unknown" in report.doubts[0]


def test_inputs_that_are_too_large_to_make_are_a_sentence():
    """What it divides by may stand for the dims, so that neither can be made smaller."""

    @rule(patterns=[lambda g, x: g.div(g.div(g.relu(x), 30011.0), 40013.0)])
    def divided(g: Graph, x: Tensor) -> Tensor:
        return g.div(g.div(g.max(x, 0.0), 30011.0), 40013.0)

    text = """(float[30011, 40013] x) => (float[30011, 40013] y) <float n = {30011}, float m = {40013}>
        { a = Relu(x) b = Div(a, n) y = Div(b, m) }"""
    _, report = surgeon.rewrite(parse(text), divided)
    assert report.outcome == "unproved"
    assert "too large to generate" in report.doubts[0]


def test_inputs_that_are_too_large_as_they_are_are_made_smaller_and_that_is_reported():
    """The rule speaks of both dims: another number stands in their place, there too."""

    @rule(patterns=[lambda g, x: g.neg(g.relu(x))])
    def reshaped(g: Graph, x: Tensor) -> Tensor:
        return g.reshape(g.min(g.neg(x), 0.0), np.array([30011, 40013]))

    text = "(float[30011, 40013] x) => (float[30011, 40013] y) { a = Relu(x) y = Neg(a) }"
    _, report = surgeon.rewrite(parse(text), reshaped)
    assert report.outcome == "proved"
    assert report.sites[0].reason.startswith("checked only at smaller sizes (")


def test_why_no_run_reported_a_rank_is_said():
    """The op before the region is known to nobody, so neither its shape nor a run can be had."""
    text = """<ir_version: 8, opset_import: ["" : 17, "my" : 1]> agraph (float[n] x) => (float[n] y)
        { m = my.Thing(x) a = Relu(m) b = Relu(a) y = Neg(b) }"""
    model = parse(text)
    model.graph.value_info.append(helper.make_tensor_value_info("m", TensorProto.FLOAT, None))
    _, report = surgeon.rewrite(model, relu_once)
    assert "the rank of 'm' is unknown, and ONNX Runtime does not load the model:" in report.doubts[0]


def test_what_is_always_empty_is_proved_by_its_shape():
    """An output of no elements tells nothing where it might have some, and all where it never has."""

    @rule(patterns=[lambda g, x: g.abs(g.slice(x, [4], [9], [1]))])
    def cut_short(g: Graph, x: Tensor) -> Tensor:
        return g.slice(g.relu(x), [4], [9], [1])

    text = """(float[n, {0}] x) => (float[n, k] y) <int64[1] low = {{4}}, int64[1] high = {{9}}, int64[1] one = {{1}}>
        {{ a = Slice(x, low, high, one) y = Abs(a) }}"""
    _, always = surgeon.rewrite(parse(text.format(3)), cut_short, keep_going=True)
    assert [site.outcome for site in always.sites] == ["proved"]
    _, sometimes = surgeon.rewrite(parse(text.format(8)), cut_short, keep_going=True)
    assert [site.outcome for site in sometimes.rolled_back] == ["failed"]


def test_a_proof_case_is_a_plain_value(monkeypatch):
    """It can go to another process, and gives the same proof there as here."""

    @rule(patterns=[lambda g, x, s: g.relu(g.mul(g.softmax(g.matmul(x, s)), 2.0))])
    def doubled(g: Graph, x: Tensor, s: Tensor) -> Tensor:
        return g.mul(g.relu(g.softmax(g.matmul(x, s))), 2.0)

    cases = []
    stays = site_prover.needs_this_process
    monkeypatch.setattr(site_prover, "needs_this_process", lambda item: cases.append(item) or stays(item))
    text = """(float[batch, seq, 5] x, float[batch, 5, more] s) => (float[batch, seq, more] y)
        <float two = {2.0}> { p = MatMul(x, s) w = Softmax(p) m = Mul(w, two) y = Relu(m) }"""
    _, report = surgeon.rewrite(parse(text), doubled)
    (case,), (proof,) = cases, report.proofs
    assert proof.outcome is Outcome.PROVED
    assert case.size_constraints
    assert case.picks_by_products
    here = prove_region.prove_case(case)
    assert replace(here, seconds=proof.seconds) == proof


@pytest.mark.parametrize(("body", "is_needed"), [("a = Relu(x) y = Relu(a)", False), ("a = Exp(x) y = Relu(a)", True)])
def test_the_float64_reference_is_opened_only_if_a_result_needs_it(monkeypatch, body, is_needed):
    """Equal results pass without it, and the proof says that it compared with the original."""

    @rule(patterns=[lambda g, x: g.relu(g.relu(x)), lambda g, x: g.relu(g.exp(x))])
    def other(g: Graph, x: Tensor) -> Tensor:
        return g.mul(g.exp(x), 1.01) if is_needed else g.max(x, 0.0)

    opened = []
    original = both_sides.Float64Reference
    monkeypatch.setattr(
        both_sides, "Float64Reference", lambda *args, **more: opened.append(1) or original(*args, **more)
    )
    monkeypatch.setattr(site_prover, "needs_this_process", lambda _: True)
    _, report = surgeon.rewrite(parse(f"(float[n, 4] x) => (float[n, 4] y) {{ {body} }}"), other, keep_going=True)
    (proof,) = report.proofs or [site.proof for site in report.rolled_back]
    assert bool(opened) is is_needed
    assert (proof.reference == "the original's own result") is not is_needed


def test_a_rule_that_differs_on_purpose_is_compared_as_it_says():
    """And what is told does: the same rule is then proved."""
    model = parse("(float[n] x, float[n] y) => (float[n] z) { d = Sub(x, x) z = Add(d, y) }")

    def made(**settings):
        pattern = surgeon.rule(patterns=[lambda g, x, y: g.add(g.sub(x, x), y)], target="any", name="gone", **settings)
        return pattern(lambda g, x, y: g.identity(y))

    with pytest.raises(surgeon.CheckFailed) as failed:
        surgeon.rewrite(model, made())
    assert "x = inf and y = 0.0 give 0.0 instead of nan (by special rows); if this" in str(failed.value)
    assert '; if this is intended, declare it in the rule: differs={"non_finite": "why"})' in str(failed.value)
    _, report = surgeon.rewrite(model, made(differs={"non_finite": "infinity less itself is no number"}))
    assert report.outcome == "proved"
