"""The fuzzer: its models come again and run, its judge sees what is wrong, and a handful of its trials."""

from collections import Counter

import numpy as np
import pytest
from onnx import helper, numpy_helper

import surgeon
from surgeon.testing import parse
from tests.fuzz import generated, jobs, judging, rounding

GELU = """
    (float[n, 8] x) => (float[n, 8] y) <float root = {1.4142135}, float one = {1}, float half = {0.5}>
    { d = Div(x, root) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half) }
"""


def test_a_seed_makes_the_same_model_again():
    assert generated.generate("3").SerializeToString() == generated.generate("3").SerializeToString()
    assert generated.generate("3").SerializeToString() != generated.generate("4").SerializeToString()


def test_models_run_and_have_what_is_promised():
    """Most load and run; among a hundred there are bodies, calls, symbolic sizes and several dtypes."""
    models = [generated.generate(f"sample {number}") for number in range(100)]
    assert sum(map(judging.runs, models)) > 80
    ops = Counter(node.op_type for model in models for node in rounding.nodes_of(model))
    assert all(ops[op] > 10 for op in ("If", "Loop", "Shape", "Cast", "Erf", "MatMul", "Transpose"))
    assert sum(len(model.functions) for model in models) > 10
    assert sum(map(rounding.has_half, models)) > 10


def changed(how):
    """A GELU that is wrong in some way."""
    model = parse(GELU)
    nodes = model.graph.node
    if how == "a constant":
        model.graph.initializer[2].CopyFrom(numpy_helper.from_array(np.float32(0.51), "half"))
    elif how == "an operand":
        nodes[3].input[0] = "e"
    elif how == "an op":
        nodes[1].op_type = "Tanh"
    elif how == "NaN":
        nodes[4].CopyFrom(helper.make_node("Sqrt", ["m"], ["y"]))
    elif how == "a shape":
        nodes[4].CopyFrom(helper.make_node("ReduceSum", ["m"], ["y"], keepdims=0))
        del model.graph.output[0].type.tensor_type.shape.dim[:]
    elif how == "no such op":
        nodes[1].op_type = "Gamma"
    return model


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ("nothing", ""),
        ("a constant", "wrong"),
        ("an operand", "wrong"),
        ("an op", "wrong"),
        ("NaN", "wrong"),
        ("a shape", "wrong"),
        ("no such op", "does not load"),
    ],
)
def test_the_judge_sees_what_is_wrong(how, kind):
    assert judging.compare(parse(GELU), changed(how)).kind == kind


def test_rounding_is_no_fault_and_a_lost_decision_is():
    """The order of a sum may move its last digits; a comparison that is turned round is seen behind integers."""
    sums = "(float[n, 8] x) => (float[n, 8] y) { a = Add(x, x) b = Add(a, x) y = Exp(b) }"
    other = "(float[n, 8] x) => (float[n, 8] y) { a = Add(x, x) b = Add(x, a) y = Exp(b) }"
    assert judging.compare(parse(sums), parse(other)).kind == ""
    greater = "(float[n, 8] x) => (int64[n, 8] y) <float z = {0.5}> { g = Greater(x, z) y = Cast<to = 7>(g) }"
    assert judging.compare(parse(greater), parse(greater.replace("Greater", "Less"))).kind == "wrong"


DECISIONS = {
    # Of each model one that computes the same with other roundings, and one that does not.
    "a saturated sigmoid": (
        "(float[47, 58] x) => (int32[47, 58] y) <float one = {1}>",
        "s = Sigmoid(x) y = Cast<to = 6>(s)",
        "n = Neg(x) e = Exp(n) a = Add(one, e) s = Div(one, a) y = Cast<to = 6>(s)",
        "s = Sigmoid(x) a = Add(s, one) y = Cast<to = 6>(a)",
    ),
    "a small sigmoid": (
        "(float[47, 58] x) => (float[47, 58] y) <float one = {1}, float two = {2}>",
        "a = Mul(x, two) s = Sigmoid(a) y = Div(one, s)",
        "a = Mul(x, two) n = Neg(a) e = Exp(n) d = Add(one, e) s = Div(one, d) y = Div(one, s)",
        "s = Sigmoid(x) y = Div(one, s)",
    ),
    "underflow in half": (
        "(float16[12, 1, 54] x) => (int64[12, 1] y) <float low = {-1.5}, float up = {1.5}>",
        "s = Softmax<axis = 0>(x) l = Cast<to = 10>(low) u = Cast<to = 10>(up) c = Clip(s, l, u) a = Asin(c) "
        "y = ArgMin<axis = 2, keepdims = 0>(a)",
        "s = Softmax<axis = 0>(x) a = Asin(s) y = ArgMin<axis = 2, keepdims = 0>(a)",
        "s = Softmax<axis = 0>(x) a = Asin(s) y = ArgMax<axis = 2, keepdims = 0>(a)",
    ),
    "overflow in half": (
        "(float16[40, 8] x) => (float16[40, 8] y) "
        "<float16[8] ones = {15360, 15360, 15360, 15360, 15360, 15360, 15360, 15360}>",
        "e = Exp(x) m = ReduceMean<axes = [-1]>(e) c = Sub(e, m) q = Mul(c, c) v = ReduceMean<axes = [-1]>(q) "
        "s = Sqrt(v) y = Div(c, s)",
        "e = Exp(x) y = LayerNormalization(e, ones)",
        "e = Exp(x) m = ReduceMean<axes = [-1]>(e) c = Sub(e, m) q = Mul(c, c) v = ReduceMean<axes = [-1]>(q) "
        "s = Sqrt(v) y = Mul(c, s)",
    ),
    "a number beside itself in half": (
        "(float16[8, 27] x) => (bool[27, 8] y) <float16 a = {15360}, float16 k = {14419}>",
        "t = Transpose(x) c = Cos(a) m = Min(t, c) y = Less(c, m)",
        "t = Transpose(x) m = Min(t, k) y = Less(k, m)",
        "t = Transpose(x) c = Cos(a) m = Min(t, c) y = Less(m, c)",
    ),
    "the order of a sum": (
        "(float[n, 8] x) => (bool[n, 8] y) <float a = {0.1}, float b = {0.2}, float c = {0.3}, float zero = {0}>",
        "p = Mul(x, c) m = Max(p, zero) q = Mul(x, a) r = Mul(x, b) s = Add(q, r) y = Greater(m, s)",
        "p = Mul(x, c) m = Max(p, zero) q = Mul(x, a) r = Mul(x, b) d = Sub(m, q) y = Greater(d, r)",
        "p = Mul(x, c) m = Max(p, zero) q = Mul(x, a) r = Mul(x, b) s = Add(q, r) y = Less(m, s)",
    ),
    "a quotient that is nearly whole": (
        "(int64[n, 8] x) => (float[n, 8] y) <float seven = {7}, float part = {0.14285715}>",
        "f = Cast<to = 1>(x) q = Mul(f, part) m = Mul(q, seven) y = Floor(m)",
        "f = Cast<to = 1>(x) q = Div(f, seven) m = Mul(q, seven) y = Floor(m)",
        "f = Cast<to = 1>(x) q = Mul(f, part) m = Mul(q, seven) y = Ceil(q)",
    ),
    "a quotient that is whole": (
        "(float[n, 8] x) => (int64 y) <float two = {2}, int64 last = {1}>",
        "s = Shape(x) w = Gather(s, last) f = Cast<to = 1>(w) h = Div(f, two) o = Floor(h) y = Cast<to = 7>(o)",
        "s = Shape(x) w = Gather(s, last) f = Cast<to = 1>(w) h = Div(f, two) y = Cast<to = 7>(h)",
        "s = Shape(x) w = Gather(s, last) f = Cast<to = 1>(w) h = Div(f, two) d = Sub(h, two) y = Cast<to = 7>(d)",
    ),
    "a scalar": (
        "(float x) => (float y) <float one = {1}>",
        "y = Exp(x)",
        "n = Neg(x) e = Exp(n) y = Div(one, e)",
        "y = Tanh(x)",
    ),
    "an exact zero": (
        "(float[n, 8] x) => (bool[n, 8] y) <float zero = {0}>",
        "t = Tanh(x) r = Relu(t) y = Greater(r, zero)",
        "r = Relu(x) t = Tanh(r) y = Greater(t, zero)",
        "t = Tanh(x) r = Relu(t) y = GreaterOrEqual(r, zero)",
    ),
}


@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_at_a_last_digit_is_no_fault_and_another_is(name):
    head, *bodies = DECISIONS[name]
    original, rounded, wrong = (parse(f"{head} {{ {body} }}") for body in bodies)
    assert judging.compare(original, rounded) == judging.Verdict()
    assert judging.compare(original, wrong).kind == "wrong"


def test_a_wrong_rule_is_found():
    """What surgeon writes unproved is judged all the same."""

    @surgeon.rule(patterns=[lambda g, x: g.erf(x)], target="any")
    def careless(g, x):
        return g.tanh(x)

    made, _ = surgeon.rewrite(parse(GELU), careless, check="none")
    assert judging.compare(parse(GELU), made).kind == "wrong"


def test_nothing_is_wrong_with_what_is_done_to_a_few():
    done: Counter[str] = Counter()
    models = [(f"few {number}", generated.generate(f"few {number}")) for number in range(10)]
    running = [(name, model) for name, model in models if judging.runs(model)]
    assert [item for name, model in running for item in jobs.findings(model, name, done, count=2)] == []
    assert done["jobs"] == 2 * len(running) > 10
