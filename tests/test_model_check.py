"""The whole-model check: right rewrites prove, wrong ones fail with numbers, and what tells nothing is unproved."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser

from surgeon.errors import UsageError
from surgeon.proof.check_options import CheckOptions
from surgeon.proof.check_result import CheckResult, Outcome
from surgeon.proof.model.model_check import ModelCheck
from surgeon.runtime.numerics.array_comparison import compare, tolerance
from surgeon.runtime.sessions.isolated_session import IsolatedRuntime
from surgeon.runtime.sessions.model_session import ModelSession
from tests.models import check_model

HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1, "mylib" : 1]>\n'
ERF = """<{t} r = {{1.4142135}}, {t} one = {{1}}, {t} half = {{0.5}}>
    {{ d = Div(x, r) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half) }}"""
TANH = """<{t} c = {{0.7978845608}}, {t} k = {{0.044715}}, {t} one = {{1}}, {t} half = {{0.5}}, {t} three = {{3}}>
    {{ p = Pow(x, three) q = Mul(p, k) s = Add(x, q) v = Mul(s, c) w = Tanh(v) a = Add(w, one) m = Mul(x, a)
    y = Mul(m, half) }}"""


def read(text: str) -> ModelProto:
    """A model from ONNX text."""
    return parser.parse_model(HEAD + text)


def body(nodes: str) -> ModelProto:
    """A model from x to y, both float[b, 8], with these nodes."""
    return read(f"g (float[b, 8] x) => (float[b, 8] y) {{ {nodes} }}")


def gelu(form: str, dtype: str = "float") -> ModelProto:
    """A GELU of shape [batch, 64] in one of its forms."""
    return read(f"g ({dtype}[batch, 64] x) => ({dtype}[batch, 64] y) " + form.format(t=dtype))


def check(original: ModelProto, rewritten: ModelProto, **options: float) -> CheckResult:
    """Check two models in memory, the original being its own skeleton."""
    return check_model(original, rewritten, original, **options)


FUSED = "{{ y = com.microsoft.Gelu(x) }}"


HIDES = """g (float[b, s] x, int64[b, s] attention_mask) => (float[b, s] y) <int64 one = {{1}}, float low = {{-9e9}}> {{
    {} }}"""
HIDDEN = "k = Equal({}, one) w = Where(k, x, low) y = Softmax<axis = -1>(w)"
FROM_FIRST_TO_LAST = (
    "f = CumSum(attention_mask, one) r = CumSum<reverse = 1>(attention_mask, one) a = Min(f, one) c = Min(r, one) "
    "n = Mul(a, c)"
)


def test_a_mask_whose_holes_are_filled_fails() -> None:
    """Masks that lead or trail are from their first to their last one: no others tell these models apart."""
    original = read(HIDES.format(HIDDEN.format("attention_mask")))
    filled = read(HIDES.format(f"{FROM_FIRST_TO_LAST} {HIDDEN.format('n')}"))
    assert check(original, original).outcome is Outcome.PROVED
    assert check(original, filled).outcome is Outcome.FAILED


def test_a_right_rewrite_is_proved() -> None:
    """The fused op is the decomposed one, to rounding, at several sizes and on values of wide range."""
    result = check(gelu(ERF), gelu(FUSED))
    assert result.outcome is Outcome.PROVED
    assert result.reason == ""
    assert result.runs == 12
    assert result.worst is not None
    assert 0 <= result.worst.max_abs <= result.worst.allowed < 1e-4
    assert result.tolerance == {"float32 rtol": 2e-5, "float32 atol": 1e-6}


def test_the_tanh_form_is_not_the_erf_form() -> None:
    """A difference of some 3e-4 is caught in float32, and told in numbers."""
    result = check(gelu(ERF), gelu(TANH))
    assert result.outcome is Outcome.FAILED
    worst = result.worst
    assert worst is not None
    assert not worst.ok
    assert 1e-4 < worst.max_abs < 1e-3
    assert worst.allowed < 1e-4
    assert result.reason.startswith("Output 'y' differs by 0.000")
    assert result.reason.endswith(") on other sizes.")


HALF = """g (float16[batch, 64] x) => (float16[batch, 64] y)
    <float r32 = {{1.4142135}}, float one32 = {{1}}, float half32 = {{{half}}}> {{
    r = Cast<to = 10>(r32) one = Cast<to = 10>(one32) half = Cast<to = 10>(half32)
    d = Div(x, r) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half) }}"""


def test_float16_has_its_own_tolerance() -> None:
    """A right float16 rewrite passes at half precision's tolerance, a wrong factor does not."""
    original = read(HALF.format(half=0.5))
    fused = gelu("{{ e = Cast<to = 1>(x) f = com.microsoft.Gelu(e) y = Cast<to = 10>(f) }}", "float16")
    right = check(original, fused)
    assert right.outcome is Outcome.PROVED, right.reason
    assert right.tolerance["float16 rtol"] == 5e-3
    assert check(original, read(HALF.format(half=0.4))).outcome is Outcome.FAILED


STORED = """g (float[b, 64] x, int64[b] ids) => (float[b, 64] y, float[b, 2] e)
    <float16[3, 2] t = {{15360, 15361, 15362, 15363, 15364, 15365}}, float k = {{{k}}}> {{
    u = Mul(x, k) y = com.microsoft.Gelu(u) {nodes} }}"""


@pytest.mark.parametrize(
    ("nodes", "outcome"),
    [
        ("w = Cast<to = 1>(t) e = Gather(w, ids)", Outcome.FAILED),
        ("r = Gather(t, ids) e = Cast<to = 1>(r)", Outcome.FAILED),
        ("c = Concat<axis = 0>(t, t) r = Gather(c, ids) e = Cast<to = 1>(r)", Outcome.FAILED),
        ("r = Gather(t, ids) s = Add(r, r) e = Cast<to = 1>(s)", Outcome.PROVED),
        ("q = Cast<to = 10>(u) v = Cast<to = 1>(q) w = Cast<to = 1>(t) e = Gather(w, ids)", Outcome.PROVED),
    ],
)
def test_a_table_in_float16_lends_nothing_its_tolerance(nodes: str, outcome: Outcome) -> None:
    """A factor 0.3 % off is far in float32; where something computes in float16, outputs have its digits."""
    assert check(read(STORED.format(k=1, nodes=nodes)), read(STORED.format(k=1.003, nodes=nodes))).outcome is outcome


def test_scores_beside_places_in_pixels_are_compared_with_scores() -> None:
    """As the head of a detector has both in one output."""
    text = """g (float[b, 100, 8] x) => (float[b, 100, 8] y)
        <float[8] k = {{640, 640, 640, 640, {k}, {k}, {k}, {k}}}> {{ s = Sigmoid(x) y = Mul(s, k) }}"""
    assert check(read(text.format(k=1)), read(text.format(k=1))).outcome is Outcome.PROVED
    result = check(read(text.format(k=1)), read(text.format(k=0.99)))
    assert result.outcome is Outcome.FAILED
    assert "(limit 2.1e-05" in result.reason


def test_what_many_elements_beside_it_are_like_is_the_scale_of_an_element() -> None:
    a = np.ones((20, 4), np.float32)
    a[:, 1] = 1e4
    b = a.copy()
    b[3, 1] += 0.1
    assert compare("y", a, b, None, None, by_parts=True).error.ok
    b[3, 2] += 1e-3
    verdict = compare("y", a, b, None, None, by_parts=True).error
    assert (verdict.ok, verdict.max_abs, verdict.scale) == (False, pytest.approx(1e-3, rel=1e-3), 1)
    assert compare("y", a, b, None, None).error.ok  # one scale for all
    assert compare("y", a, b, 2e-5, None, by_parts=True).error.ok  # what was asked for is of the whole tensor
    assert compare("y", a[:10], b[:10], None, None, by_parts=True).error.ok  # few may be small by chance


def test_bfloat16_passes_through() -> None:
    """Inputs and outputs of bfloat16 are made and compared although numpy has no such type."""
    model = read("g (bfloat16[b, 4] x) => (bfloat16[b, 4] y) { y = Identity(x) }")
    assert check(model, model).outcome is Outcome.PROVED
    negated = read("g (bfloat16[b, 4] x) => (bfloat16[b, 4] y) { f = Cast<to = 1>(x) n = Neg(f) y = Cast<to = 16>(n) }")
    assert check(model, negated).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ("t = Relu(x) y = Transpose(t)", "Output 'y' has shape [8, 2], but [2, 8] in the original on usual inputs."),
        ("t = Relu(x) y = Cast<to = 11>(t)", "Output 'y' is float64, but float32 in the original on usual inputs."),
        ("t = Relu(q) y = Abs(t)", "Node input 'q' is not a graph input"),
        ("y = com.microsoft.Reluu(x)", "com.microsoft:Reluu(-1) is not a registered function/op"),
        ("t = Relu(x) s = Constant<value_ints = [3, 7]>() y = Reshape(t, s)", "the rewritten model does not: "),
        ("z = Constant<value_float = 0.0>() y = Div(x, z)", "Output 'y' is infinite at other indices"),
        (
            "n = Neg(x) r = Relu(n) l = Neg(r) s = Sqrt(l) a = Relu(x) y = Add(a, s)",
            "Output 'y' is NaN at other indices",
        ),
    ],
)
def test_wrong_rewrites_fail_with_the_reason(nodes: str, reason: str) -> None:
    """Shape, dtype, loading, running, infinity and NaN: each fails by its own name."""
    rewritten = body(nodes)
    if "Transpose" in nodes or "Cast" in nodes:
        rewritten.graph.output[0].type.tensor_type.ClearField("shape")
        rewritten.graph.output[0].type.tensor_type.elem_type = 11 if "Cast" in nodes else 1
    result = check(body("y = Relu(x)"), rewritten)
    assert result.outcome is Outcome.FAILED
    assert reason in result.reason


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ("y = mylib.Placeholder(x)", "ONNX Runtime does not load the original: FAIL : Fatal error: mylib:Placeholder"),
        (
            "r = RandomNormalLike(x) y = Add(x, r)",
            "The original model is not deterministic: output 'y' differs between two runs (RandomNormalLike 'r' is",
        ),
        ("a = Abs(x) n = Neg(a) l = Log(n) y = Add(l, x)", "No output can show a difference: 'y' is all NaN in"),
        ("y = Sub(x, x)", "No output can show a difference: 'y' is 0.0 everywhere in the original."),
        (
            "s = Constant<value_ints = [3, 7]>() y = Reshape(x, s)",
            "The original does not run on the generated inputs; try other sizes or --inputs. ONNX Runtime: ",
        ),
    ],
)
def test_what_cannot_be_reported_is_unproved(nodes: str, reason: str) -> None:
    """The model against itself: no failure, no proof, and the reason."""
    result = check(body(nodes), body(nodes))
    assert result.outcome is Outcome.UNPROVED
    assert result.reason.startswith(reason), result.reason


def test_no_kernel_is_unproved() -> None:
    """An op that ORT knows and has no kernel for in this dtype says so."""
    model = read("g (bfloat16[b, 4] x) => (bfloat16[b, 4] y) { y = Erf(x) }")
    result = check(model, model)
    assert result.outcome is Outcome.UNPROVED
    assert "Could not find an implementation for Erf" in result.reason


def test_a_rewrite_for_another_runtime_is_unproved_not_failed() -> None:
    """ORT cannot judge an op of a domain that it does not know."""
    result = check(body("y = Relu(x)"), body("y = mylib.FastRelu(x)"))
    assert result.outcome is Outcome.UNPROVED
    assert "mylib:FastRelu" in result.reason


def test_no_outputs_empty_outputs_and_unmakeable_inputs_are_unproved() -> None:
    """Nothing to compare, nothing compared, nothing to run on."""
    model = body("y = Relu(x)")
    del model.graph.output[:]
    assert check(model, model).reason == "The model has no outputs to compare."
    empty = read("g (float[0, 2] x) => (float[0, 2] y) { y = Relu(x) }")
    assert check(empty, empty).reason == "No output can show a difference: 'y' is empty in the original."
    sequence = read("g (seq(float[2]) x, int64 i) => (float[2] y) { y = SequenceAt(x, i) }")
    result = check(sequence, sequence)
    assert result.outcome is Outcome.UNPROVED
    assert result.reason == "Inputs cannot be generated: input 'x' is a sequence, and surgeon generates only tensors."


def test_one_random_output_does_not_hide_a_wrong_one() -> None:
    """Outputs that repeat are compared, whatever another does."""
    text = "g (float[8] x) => (float[8] y, float[8] z) {{ r = RandomNormalLike(x) y = Add(x, r) z = {op}(x) }}"
    assert check(read(text.format(op="Relu")), read(text.format(op="Relu"))).outcome is Outcome.UNPROVED
    result = check(read(text.format(op="Relu")), read(text.format(op="Abs")))
    assert result.outcome is Outcome.FAILED
    assert result.reason.startswith("Output 'z' differs")


def test_a_constant_output_beside_an_informative_one_is_mentioned() -> None:
    """Proved by the one; the other is named."""
    model = read("g (float[8] x) => (float[8] y, float[8] z) { y = Relu(x) z = Sub(x, x) }")
    result = check(model, model)
    assert result.outcome is Outcome.PROVED
    assert result.reason == "Some outputs cannot show a difference: 'z' is 0.0 everywhere."


BRANCHES = """g (float[2] x, bool c) => (float[2] y) {{ y = If (c)
    <then_branch = t () => (float[2] a) {{ a = Relu(x) }}, else_branch = e () => (float[2] b) {{ b = {op}(x) }}> }}"""


@pytest.mark.parametrize("branch", ["Relu", "Neg"])
def test_a_fault_in_either_branch_is_found(branch: str) -> None:
    """Conditions take both values over the runs."""
    right = read(BRANCHES.format(op="Neg"))
    assert check(right, right).outcome is Outcome.PROVED
    wrong = read(BRANCHES.format(op="Neg").replace(f"{branch}(x)", "Abs(x)"))
    assert check(right, wrong).outcome is Outcome.FAILED


def test_scalars_strings_integers_and_lists() -> None:
    """0-d tensors, exact types and sequences compare as they should."""
    scalar = read("g (float x) => (float y) { y = Neg(x) }")
    assert check(scalar, scalar).outcome is Outcome.PROVED
    text = read("g (string[4] x) => (string[4] y) { y = Identity(x) }")
    assert check(text, text).outcome is Outcome.PROVED
    whole = "g (int64[b, 4] x) => (int64[b, 4] y) {{ one = Constant<value = int64 {{{c}}}>() y = Mul(x, one) }}"
    assert check(read(whole.format(c=1)), read(whole.format(c=1))).outcome is Outcome.PROVED
    wrong = check(read(whole.format(c=3)), read(whole.format(c=2)))
    assert wrong.outcome is Outcome.FAILED
    assert "elements, by" in wrong.reason
    listed = "g (float[2] x) => (seq(float[2]) y) {{ n = {op}(x) y = SequenceConstruct(x, n) }}"
    assert check(read(listed.format(op="Neg")), read(listed.format(op="Neg"))).outcome is Outcome.PROVED
    assert "'y[1]'" in check(read(listed.format(op="Neg")), read(listed.format(op="Abs"))).reason


def test_a_changed_interface_fails() -> None:
    """A lost input, a new one, another output: the caller's code would break."""
    two = read("g (float[8] x, float[8] z) => (float[8] y) { y = Relu(x) }")
    one = read("g (float[8] x) => (float[8] y) { y = Relu(x) }")
    other = read("g (float[8] x) => (float[8] w) { w = Relu(x) }")
    assert check(two, one).reason == "The rewritten model does not have the input 'z' of the original."
    assert check(one, two).reason == "The rewritten model has an input 'z', which the original does not have."
    assert check(one, other).reason == "The rewritten model has the outputs ['w'], but the original has ['y']."
    assert {check(two, one).outcome, check(one, two).outcome, check(one, other).outcome} == {Outcome.FAILED}


def test_values_that_answer_nan_are_replaced_by_tamer_ones() -> None:
    """Log of Sqrt of normal values is NaN for half of them; a Log of minus a square for all, and stays unproved."""
    model = read("g (float[4] x) => (float[4] y) { l = Log(x) s = ReduceSum(l) y = Mul(x, s) }")
    result = check(model, model)
    assert result.outcome is Outcome.PROVED, result.reason
    tripled = read("g (float[4] x) => (float[4] y) { l = Log(x) s = ReduceSum(l) t = Mul(x, s) y = Add(t, t) }")
    assert check(model, tripled).outcome is Outcome.FAILED


def test_sizes_that_the_model_refuses_are_skipped() -> None:
    """A fixed product of free dimensions is found among the sizes that are tried."""
    model = read("g (float[b, k] x) => (float[c, 8] y) { s = Constant<value_ints = [-1, 8]>() y = Reshape(x, s) }")
    result = check(model, model)
    assert result.outcome is Outcome.PROVED, result.reason
    chosen = check_model(model, model, model, dims={"b": 1, "k": 24})
    assert chosen.outcome is Outcome.PROVED
    with pytest.raises(UsageError, match="'batch'"):
        check_model(model, model, model, dims={"batch": 1})


def chain(factors: list[str], tail: str) -> ModelProto:
    """x times each factor in turn, then `tail` from t."""
    nodes = [f"t{i + 1} = Mul(t{i}, f{i})" for i in range(len(factors))]
    constants = [f"f{i} = Constant<value_float = {factor}>()" for i, factor in enumerate(factors)]
    steps = " ".join(["t0 = Identity(x)", *constants, *nodes, f"t = Identity(t{len(factors)})", tail])
    return read(f"g (float[b, 64] x) => (float[b, 64] y) {{ {steps} }}")


def test_rounding_that_the_original_magnifies_is_not_compared_with_a_rewrite() -> None:
    """sin(300 x) moves by far more than the tolerance when x moves by one unit in the last place."""
    right = check(chain(["3.7", "81.3"], "y = Sin(t)"), chain(["300.81"], "y = Sin(t)"))
    assert right.outcome is Outcome.PROVED, right.reason
    wrong = check(chain(["3.7", "81.3"], "y = Sin(t)"), chain(["300.9"], "y = Sin(t)"))
    assert wrong.outcome is Outcome.FAILED


def test_where_noise_drowns_everything_the_outcome_is_unproved() -> None:
    """sin(3e6 x) is chaos in float32: a difference says nothing, and so does none."""
    result = check(chain(["3700.0", "813.0"], "y = Sin(t)"), chain(["3008100.0"], "y = Sin(t)"))
    assert result.outcome is Outcome.UNPROVED
    assert "but rounding by itself changes" in result.reason


def test_tolerances_can_be_set() -> None:
    """A looser one lets the tanh form pass, and is stated."""
    result = check(gelu(ERF), gelu(TANH), rtol=1e-3, atol=1e-3)
    assert result.outcome is Outcome.PROVED
    assert result.tolerance == {"float32 rtol": 1e-3, "float32 atol": 1e-3}


def test_files_with_external_data_are_opened_by_path(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Data resolve beside each file; the skeleton holds no weight; ORT prints nothing."""
    weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32), "w")
    model = read("g (float[batch, 64] x) => (float[batch, 64] y) { y = MatMul(x, w) }")
    model.graph.initializer.append(weight)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        copy = ModelProto()
        copy.CopyFrom(model)
        if name == "b":
            copy.graph.node[0].op_type = "MatMulNoSuch"
        onnx.save(copy, tmp_path / name / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    skeleton = ModelProto()
    skeleton.CopyFrom(model)
    skeleton.graph.initializer[0].ClearField("raw_data")
    skeleton.graph.initializer[0].data_location = TensorProto.EXTERNAL
    skeleton.graph.initializer[0].external_data.add(key="surgeon.payload", value="0")
    good = tmp_path / "a" / "m.onnx"
    assert check_model(good, good, skeleton).outcome is Outcome.PROVED
    result = check_model(good, tmp_path / "b" / "m.onnx", skeleton)
    assert result.outcome is Outcome.FAILED
    assert "MatMulNoSuch" in result.reason
    assert str(tmp_path) not in result.reason
    missing = check_model(tmp_path / "none.onnx", good, skeleton)
    assert missing.outcome is Outcome.UNPROVED
    assert capfd.readouterr() == ("", "")


def test_the_result_survives_json() -> None:
    """Also with infinite errors in it."""
    result = check(body("y = Relu(x)"), body("z = Constant<value_float = 0.0>() y = Div(x, z)"))
    loaded = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert loaded["outcome"] == "failed"
    assert loaded["worst"] == "y"
    assert loaded["outputs"][0]["max_abs"] == "inf"


floats = st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=20)


@settings(deadline=None, max_examples=60)
@given(values=floats, dtype=st.sampled_from(["float64", "float32", "float16"]), factor=st.sampled_from([0.4, 2.5]))
def test_the_tolerance_is_a_sharp_line(values: list[float], dtype: str, factor: float) -> None:
    """Equal is equal; an error of the largest element below the allowance passes, one above does not."""
    a = np.array(values, dtype=dtype)
    assert compare("y", a, a.copy(), None, None).error.ok
    wide = a.astype(np.float64)
    rtol, atol = tolerance(dtype)
    b = wide.copy()
    top = int(np.argmax(np.abs(wide)))
    b[top] += math.copysign(factor * (atol + rtol * abs(wide[top])), wide[top])
    moved = b.astype(dtype)
    gap = abs(float(moved[top]) - float(wide[top]))
    verdict = compare("y", a, moved, None, None).error
    assert verdict.ok == (gap <= verdict.allowed)
    assert verdict.max_abs == pytest.approx(gap, rel=1e-3)


def test_infinities_and_nan_must_agree_in_place_and_sign() -> None:
    """The same special values pass; another sign or place does not."""
    a = np.array([1, np.inf, -np.inf, np.nan], np.float32)
    assert compare("y", a, a.copy(), None, None).error.ok
    for swapped in ([1, 2], [0, 1], [0, 3]):
        b = a.copy()
        b[swapped] = b[swapped[::-1]]
        assert not compare("y", a, b, None, None).error.ok


def test_random_small_networks_prove_against_themselves() -> None:
    """Conv, LSTM and a mask: whole models of other kinds run on what is made."""
    rng = np.random.default_rng(0)
    conv = read(
        "g (float[n, 3, height, width] image) => (float[n, 4, h, w] y) { y = Conv<strides = [2, 2]>(image, k) }"
    )
    conv.graph.initializer.append(numpy_helper.from_array(rng.standard_normal((4, 3, 3, 3)).astype(np.float32), "k"))
    assert check(conv, conv).outcome is Outcome.PROVED
    lstm = read(
        """g (float[seq, batch, 3] x, int32[batch] lengths) => (float[s, d, b, 4] y)
        { y = LSTM<hidden_size = 4>(x, w, r, b, lengths) }"""
    )
    for name, shape in (("w", (1, 16, 3)), ("r", (1, 16, 4)), ("b", (1, 32))):
        lstm.graph.initializer.append(numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name))
    result = check(lstm, lstm)
    assert result.outcome is Outcome.PROVED, result.reason
    assert result.runs == 13
    bare = helper.make_model(helper.make_graph([], "g", [], []), opset_imports=[helper.make_opsetid("", 17)])
    assert check(bare, bare).outcome is Outcome.UNPROVED


def test_an_original_is_run_once_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trials and the noise of the original are kept; each model gets its own verdict, in any order."""
    opened: list[ModelProto] = []

    open_one = IsolatedRuntime.open

    def counting(away: IsolatedRuntime, model: ModelProto, **named: Any) -> ModelSession:
        opened.append(model)
        return open_one(away, model, **named)

    monkeypatch.setattr(IsolatedRuntime, "open", counting)
    original, fused, tanh = gelu(ERF), gelu(FUSED), gelu(TANH)
    against = ModelCheck(original, original)
    assert not opened
    outcomes = [against.check(model).outcome for model in (fused, tanh, fused, original, tanh)]
    assert outcomes == [Outcome.PROVED, Outcome.FAILED, Outcome.PROVED, Outcome.PROVED, Outcome.FAILED]
    usual = [model for model in opened if model is original]
    assert len(usual) == 5, "once for the trials, three times for the noise, and once as its own rewrite"


def test_a_dropped_trial_is_dropped_for_one_model_only() -> None:
    """Sines of thousands: what noise takes out for one model still counts for the next."""
    chaos = "a = Constant<value_float = {a}>() b = Constant<value_float = {b}>() s = Mul(x, a) t = Mul(s, b) y = Sin(t)"
    original = body(chaos.format(a=100.0, b=10.0))
    against = ModelCheck(original, original)
    first, second = against.check(body(chaos.format(a=1000.0, b=1.0))), against.check(original)
    assert (first.outcome, second.outcome) == (Outcome.PROVED, Outcome.PROVED)
    assert first.runs < second.runs
    assert second.reason == ""


def test_what_the_original_does_is_an_outcome_every_time() -> None:
    """No run, no trials: the same sentence for each model."""
    original = body("y = mylib.Placeholder(x)")
    against = ModelCheck(original, original)
    results = [against.check(body("y = Relu(x)")) for _ in range(2)]
    assert {result.outcome for result in results} == {Outcome.UNPROVED}
    assert results[0].reason == results[1].reason != ""
    with pytest.raises(UsageError, match="'c'"):
        ModelCheck(body("y = Relu(x)"), body("y = Relu(x)"), CheckOptions({"c": 2}))
