"""An input that becomes a constant."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

import surgeon
from surgeon.edits import Hold, Rename
from surgeon.testing import parse
from tests.command_line import run

RATE = """<ir_version: 8, opset_import: ["" : 17]> g (float[n, 4] x, int64 rate) => (float[n, 4] y)
    <int64 high = {16000}> { c = Equal(rate, high)
    y = If(c)<then_branch = a () => (float[n, 4] p) { p = Neg(x) }, else_branch = b () => (float[n, 4] q) {
        q = Exp(x) }> }"""


def stated(kind, shape="", body="Cast<to = 1>(k)"):
    """A model of two inputs."""
    return parse(f"(float[4] x, {kind}{shape} k) => (float[m] y) {{ c = {body} y = Add(x, c) }}")


def held(model, name):
    return next(numpy_helper.to_array(tensor) for tensor in model.graph.initializer if tensor.name == name)


def test_what_depends_on_it_is_known_then():
    """The branch of a rate that is held is taken by a rule, and both models answer alike."""
    model = parse(RATE)
    made, report = surgeon.edit(model, Hold("rate", "16000"))
    assert report.outcome == "proved"
    assert report.edits[0].said == ("input 'rate' is replaced with the constant 16000",)
    assert [value.name for value in made.graph.input] == ["x"]
    taken, report = surgeon.rewrite(made, "constant_if,constant_folding")
    assert report.outcome == "proved"
    assert [node.op_type for node in taken.graph.node] == ["Neg"]
    feeds = {"x": np.arange(8, dtype=np.float32).reshape(2, 4)}
    answers = [
        ort.InferenceSession(one.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, given)[0]
        for one, given in ((model, {**feeds, "rate": np.array(16000)}), (taken, feeds))
    ]
    np.testing.assert_array_equal(*answers)


def test_one_that_was_renamed_before_it():
    made, report = surgeon.edit(parse(RATE), [Rename("rate", "hertz"), Hold("hertz", "8000")])
    assert report.outcome == "proved"
    assert held(made, "hertz") == 8000


@pytest.mark.parametrize(
    ("kind", "shape", "value", "wanted"),
    [
        ("int64", "[4]", "1,2,3,-4", [1, 2, 3, -4]),
        ("int64", "[4]", "7", [7, 7, 7, 7]),
        ("int32", "[k]", "1,0,1,0", [1, 0, 1, 0]),
        ("float16", "[2, 2]", "0.5,1,2,3", [[0.5, 1], [2, 3]]),
        ("bool", "", "true", True),
        ("bool", "[2]", "0,1", [False, True]),
    ],
)
def test_values_by_dtype_and_shape(kind, shape, value, wanted):
    body = "Cast<to = 1>(k)" if shape != "[2, 2]" and shape != "[2]" else "ReduceSum<keepdims = 0>(f) f2 = Neg(c)"
    model = stated(kind, shape, body)
    if "f2" in body:
        model.graph.node.insert(0, onnx.helper.make_node("Cast", ["k"], ["f"], to=1))
    made, report = surgeon.edit(model, Hold("k", value))
    assert report.outcome == "proved"
    found = held(made, "k")
    np.testing.assert_array_equal(found, np.array(wanted, kind), strict=True)
    assert found.dtype == np.dtype(kind)


def test_a_scalar_has_no_axes():
    """What is picked by it has one axis less: a Gather, and a Range, want a number and no list of one."""
    text = "(float[5, 3] x, int64 i) => (float[3] y) { y = Gather(x, i) }"
    made, report = surgeon.edit(parse(text), Hold("i", "1"))
    assert report.outcome == "proved"
    onnx.checker.check_model(made, full_check=True)
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], x[1], strict=True)
    ranged = parse(
        "(float[n] x, int64 k) => (float[n] y) <int64 o = {0}, int64 e = {1}> "
        "{ r = Range(o, k, e) s = ReduceSum<keepdims = 0>(r) f = Cast<to = 1>(s) y = Add(x, f) }"
    )
    assert surgeon.edit(ranged, Hold("k", "4"))[1].outcome == "proved"


@pytest.mark.parametrize(
    ("model", "name", "value", "words"),
    [
        (stated("int64"), "kk", "1", "did you mean 'k'"),
        (stated("int64"), "k", "fast", "Invalid value 'fast' for 'k'. Give a number, for example 16000."),
        (stated("int64"), "k", "1.5", "Input 'k' is int64, which cannot represent 1.5."),
        (stated("uint8"), "k", "300", "Input 'k' is uint8, which cannot represent 300."),
        (stated("float"), "k", "1e50", "Input 'k' is float32, which cannot represent 1e50."),
        (stated("int64"), "k", "9" * 20, "Input 'k' is int64, which cannot represent 99999999999999999999."),
        (stated("int64"), "k", "1,2", "Input 'k' needs 1 number, not 2."),
        (stated("int64", "[4]"), "k", "1,2", "Input 'k' needs 1 number or 4, not 2."),
        (stated("float", "[b, 4]", "ReduceSum<keepdims = 0>(k)"), "k", "1", "first: surgeon edit IN OUT --dim b=N"),
        (parse("(seq(float[2]) k, int64 i) => (float[2] y) { y = SequenceAt(k, i) }"), "k", "1", "is not numeric"),
    ],
)
def test_what_cannot_be_held_is_one_sentence(model, name, value, words):
    with pytest.raises(surgeon.UsageError) as caught:
        surgeon.edit(model, Hold(name, value))
    assert words in str(caught.value)


def test_at_the_command_line(tmp_path):
    onnx.save(parse(RATE), tmp_path / "in.onnx")
    done = run("edit", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--hold", "rate=16000")
    assert done.exit_code == 0, done.output
    assert "hold  input 'rate' is replaced with the constant 16000" in done.output
    assert held(onnx.load(tmp_path / "out.onnx"), "rate") == 16000


@pytest.mark.parametrize(("kind", "fits", "larger"), [("int4", "-8,7,0,1", "8"), ("uint4", "0,15,3,1", "16")])
def test_integers_of_few_bits_hold_no_others(kind, fits, larger):
    """8 would be -8 in int4."""
    model = parse(
        f'<ir_version: 10, opset_import: ["" : 21]> g (float[4] x, {kind}[4] k) => (float[4] y) '
        "{ c = Cast<to = 1>(k) y = Add(x, c) }"
    )
    made, _ = surgeon.edit(model, Hold("k", fits), check="none")
    assert held(made, "k").astype(int).tolist() == [int(number) for number in fits.split(",")]
    with pytest.raises(surgeon.UsageError, match=f"Input 'k' is {kind}, which cannot represent {larger}"):
        surgeon.edit(model, Hold("k", larger), check="none")


def test_inputs_of_ones_own_are_those_of_the_edited_model():
    """Where an edit changes what a model is fed with; the original is run on what follows from them."""
    model = stated("int64")
    numbers = np.array([3.5, -1.0, 2.0, 7.0], np.float32)
    _, report = surgeon.edit(model, Hold("k", "2"), options=surgeon.CheckOptions(inputs=[{"x": numbers}]))
    assert report.outcome == "proved"
    assert report.check.runs == 1
    with pytest.raises(surgeon.UsageError, match=r"Array 'k' in inputs\[0\] is not an input of the model"):
        surgeon.edit(model, Hold("k", "2"), options=surgeon.CheckOptions(inputs=[{"x": numbers, "k": np.array(3)}]))
