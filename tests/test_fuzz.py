"""The fuzzer: its models come again and run, its judge sees what is wrong, and a handful of its trials."""

from collections import Counter

import numpy as np
import pytest
from onnx import helper, numpy_helper

import surgeon
from surgeon.testing import parse
from tests.fuzz import generated, jobs, judging

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
    ops = Counter(node.op_type for model in models for node in judging._nodes(model))
    assert all(ops[op] > 10 for op in ("If", "Loop", "Shape", "Cast", "Erf", "MatMul", "Transpose"))
    assert sum(len(model.functions) for model in models) > 10
    assert sum(map(judging.has_half, models)) > 10


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
