"""Models that are invalid before a conversion, and weights that a model stores in half precision."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import surgeon
from surgeon.errors import GraphError
from tests.half_models import converted, model, ops

ILL = {
    "an input of another dtype": ("y = Add(x, z)", "(float16[N, 4] x, double[N, 4] z) => (float16[N, 4] y)"),
    "a product of two dtypes": ("y = MatMul(x, z)", "(float16[N, 4] x, double[4, 4] z) => (float16[N, 4] y)"),
    "an op that takes no floats": ("y = BitwiseAnd(x, x)", "(float16[N, 4] x) => (float16[N, 4] y)"),
    "an axis that is not there": ("y = Concat<axis = 7>(x, x)", "(float16[N, 4] x) => (float16[N, 8] y)"),
}


@pytest.mark.parametrize("case", ILL)
def test_an_invalid_model_is_reported_and_not_copied(case, tmp_path):
    body, head = ILL[case]
    onnx.save(model(body, head), tmp_path / "in.onnx")
    with pytest.raises(GraphError, match="invalid before the conversion: ONNX Runtime does not load it"):
        surgeon.convert(tmp_path / "in.onnx", output=tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()


def test_without_a_run_its_dtypes_tell():
    made = model(*ILL["an input of another dtype"])
    with pytest.raises(GraphError, match="invalid before the conversion"):
        surgeon.convert(made, check="none")


@pytest.mark.parametrize("change", [("float16", "float32"), ("float32", "float16")])
def test_a_conversion_that_mends_a_model_is_written_and_says_so(change):
    made = model("y = Add(x, one)", "(float16[N, 4] x) => (float16[N, 4] y)", weights="<float one = {1}>")
    _, report = surgeon.convert(made, change[0], from_=change[1], io="convert")
    assert report.outcome == "unproved"
    assert report.reason.startswith("ONNX Runtime does not load the original")
    assert "ONNX Runtime loads the result, but not the original" in report.told


STORED = {
    "a product": ("v = Cast<to = 1>(w) m = MatMul(x, v) y = Add(m, b)", ["MatMul", "Add"]),
    "with its axes swapped": (
        "t = Transpose<perm = [1, 0]>(w) v = Cast<to = 1>(t) m = MatMul(x, v) y = Add(m, b)",
        ["Transpose", "MatMul", "Add"],
    ),
    "swapped behind the Cast": (
        "v = Cast<to = 1>(w) t = Transpose<perm = [1, 0]>(v) m = MatMul(x, t) y = Add(m, b)",
        ["Transpose", "MatMul", "Add"],
    ),
    "read twice": (
        "v = Cast<to = 1>(w) m = MatMul(x, v) n = MatMul(m, v) y = Tanh(n)",
        ["MatMul", "MatMul", "Tanh"],
    ),
    "of a Constant": (
        "k = Constant<value = float16[4] {14336, 13312, 15360, 12288}>() v = Cast<to = 1>(k) m = Mul(x, v) y = Tanh(m)",
        ["Constant", "Mul", "Tanh"],
    ),
    "rows that indices look up": (
        "e = Gather(w, i) v = Cast<to = 1>(e) m = MatMul(x, v) y = Tanh(m)",
        ["Gather", "MatMul", "Tanh"],
    ),
    "rows in another shape": (
        "e = Gather(w, i) r = Reshape(e, s) v = Cast<to = 1>(r) m = MatMul(x, v) y = Tanh(m)",
        ["Gather", "Reshape", "MatMul", "Tanh"],
    ),
    "a part of it": (
        "e = Slice(w, i0, i4) t = Transpose<perm = [1, 0]>(e) v = Cast<to = 1>(t) m = MatMul(x, v) y = Tanh(m)",
        ["Slice", "Transpose", "MatMul", "Tanh"],
    ),
    "in a body": (
        """m = If(c) <then_branch = t () => (float[N, 4] p) { v = Cast<to = 1>(w) p = MatMul(x, v) },
        else_branch = e () => (float[N, 4] n) { n = Identity(x) }> y = Tanh(m)""",
        ["If", "Tanh"],
    ),
}


WEIGHTS = "<float[4] b = {1, 2, 3, 4}, int64[2] s = {4, 4}, int64[1] i0 = {0}, int64[1] i4 = {4}>"


def with_weight(body):
    """A model with a stored matrix of float16."""
    made = model(body, "(float[N, 4] x, bool c, int64[4] i) => (float[N, 4] y)", weights=WEIGHTS)
    weight = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float16)
    made.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return made


@pytest.mark.parametrize("case", STORED)
def test_a_weight_that_is_stored_in_half_precision_is_read_as_it_is(case):
    body, left = STORED[case]
    half, report = converted(with_weight(body))
    assert (report.outcome, report.kept) == ("proved", [])
    assert [op for op in ops(half) if op != "Cast"] == left
    inner = [node for one in half.graph.node for item in one.attribute for node in item.g.node]
    casts = [node for node in (*half.graph.node, *inner) if node.op_type == "Cast"]
    assert {node.input[0] for node in casts} <= {"x", "y_float16"}


def test_one_that_is_read_in_both_dtypes_keeps_its_cast():
    body = "v = Cast<to = 1>(w) m = MatMul(x, v) n = MatMul(m, v) y = Tanh(n)"
    half, report = converted(with_weight(body), keep=["name:m", "auto"])
    assert report.outcome == "proved"
    products = [node for node in half.graph.node if node.op_type == "MatMul"]
    assert [node.input[1] for node in products] == ["v", "w"]


def test_one_is_narrowed_to_bfloat16():
    half, report = converted(with_weight(STORED["a product"][0]), to="bfloat16", max_error=0.05)
    assert (report.outcome, report.kept) == ("proved", [])
    assert ops(half).count("MatMul") == 1


def test_a_cast_of_what_is_computed_is_still_the_models_own_word():
    made = with_weight("h = Cast<to = 10>(x) p = MatMul(h, w) v = Cast<to = 1>(p) m = Mul(v, b) y = Tanh(m)")
    _, report = surgeon.convert(made)
    assert {(item.op, item.kind) for item in report.kept} == {("Cast", "model"), ("Mul", "model"), ("Tanh", "model")}
