"""Outputs of a converted model are compared with the original; uninformative ones are reported."""

import numpy as np
import onnx
import pytest

import surgeon
from surgeon.display.content.conversion import outcome_words
from surgeon.errors import CheckFailed
from surgeon.precision.measuring.output_error import BLOCK, OutputDeviation
from surgeon.precision.planning.node_dtypes import DtypeChange
from tests.half_models import converted, kept, model

LOST = "a = Add({0}, c) b = Sub(a, c)"
"""Float16 keeps nothing of x beside 20,000, and little beside 2,000."""


@pytest.mark.parametrize(("c", "scale", "offset"), [(2000, 1000, 22000), (20000, 7000, 24500), (20000, -7000, -24500)])
def test_large_outputs_are_data(c, scale, offset):
    body = f"{LOST.format('x')} s = Tanh(b) m = Mul(s, k) y = Add(m, o)"
    _, report = converted(model(body, weights=f"<float c = {{{c}}}, float k = {{{scale}}}, float o = {{{offset}}}>"))
    assert (report.outcome, kept(report)) == ("proved", [("Add", "error"), ("Sub", "error")])


def nearness():
    """What compares an output y."""
    made = model("y = Tanh(x)")
    return OutputDeviation(made.graph, DtypeChange(onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16))


@pytest.mark.parametrize(
    ("one", "two", "is_far"),
    [
        ([-1e9, 1.0], [-32752.0, 1.0], False),  # a fill, and half the lowest number
        ([-np.inf, 1.0], [-65504.0, 1.0], False),  # two of them
        ([-1e9, 1.0], [-32752.0, 1.1], True),
        ([-1e9, 1.0], [-100.0, 1.0], True),
        ([1e9, 1.0], [65504.0, 1.0], True),
        ([60000.0, 1.0], [np.inf, 1.0], True),
        ([np.inf, 1.0], [np.inf, 1.0], False),
        ([np.inf, 1.0], [65504.0, 1.0], True),
        ([20000.0, 30000.0], [19000.0, 30000.0], True),
        ([-40000.0, 1.0], [-30000.0, 1.0], True),
        ([np.nan, 1.0], [3.0, 1.0], False),
        ([1.0, 1.0], [np.nan, 1.0], True),
    ],
)
def test_what_is_far(one, two, is_far):
    assert (nearness().error("y", np.array(one, np.float32), np.array(two, np.float32)) > 0.01) == is_far


@pytest.mark.parametrize("dtype", [np.str_, np.object_])
def test_strings_are_compared(dtype):
    one, two = np.array(["a", "b"], dtype), np.array(["a", "c"], dtype)
    assert (nearness().error("y", one, one), nearness().error("y", one, two)) == (0.0, 0.5)


EMPTY = {
    "is empty": """t = Mul(x, x) a = Tanh(t) r = ReduceMax<keepdims = 0>(a, axes) g = Greater(r, h) n = NonZero(g)
        i = Reshape(n, flat) y = Gather(t, i)""",
    "is 0.0 everywhere": "a = Sub(x, h) b = Relu(a) y = Mul(b, x)",
    "varies less than the tolerance": "a = Add(x, big) y = Add(a, big)",
}
CONSTANTS = "<float h = {100}, float big = {10000}, int64[1] axes = {1}, int64[1] flat = {-1}>"


@pytest.mark.parametrize("why", EMPTY)
def test_of_what_could_show_no_difference_nothing_is_proved(why):
    made = model(EMPTY[why], "(float[N, 4] x) => (float[M, 4] y)", weights=CONSTANTS)
    _, report = converted(made)
    assert (report.outcome, report.error) == ("unproved", None)
    assert report.reason.startswith("No output can show a difference: 'y'")
    assert why in report.reason


def test_outputs_beside_others_that_tell_are_noted():
    made = model(f"{EMPTY['is 0.0 everywhere']} z = Exp(x)", "(float[N, 4] x) => (float[N, 4] y, float[N, 4] z)",
                 weights=CONSTANTS)
    _, report = converted(made)
    assert report.outcome == "proved"
    assert "Some outputs cannot show a difference: 'y' is 0.0 everywhere" in report.told


def test_inputs_of_which_no_answer_is_a_number_prove_nothing():
    options = surgeon.CheckOptions(inputs={"x": np.full((2, 4), np.nan, np.float32)})
    _, report = converted(model("y = Exp(x)"), options=options)
    assert (report.outcome, report.reason) == (
        "unproved",
        "No output can show a difference: 'y' is all NaN in the original.",
    )


BOXES = f"p = Sigmoid(b0) q = Mul(p, k) {LOST.format('s')} r = Sigmoid(b)"
ENDS = {
    "joined": "y = Concat<axis = 2>(q, r)",
    "joined and moved": "t = Concat<axis = 2>(q, r) y = Transpose<perm = [0, 2, 1]>(t)",
    "joined and scaled": "t = Concat<axis = 2>(q, r) y = Mul(t, ones)",
}


@pytest.mark.parametrize("end", ENDS)
def test_scores_that_are_joined_with_pixels_are_compared_with_scores(end):
    head = "(float[1, 100, 4] b0, float[1, 100, 2] s) => (float[1, U, V] y)"
    weights = "<float k = {640}, float c = {2000}, float[6] ones = {1, 1, 1, 1, 1, 1}>"
    made = model(f"{BOXES} {ENDS[end]}", head, weights=weights)
    _, report = converted(made)
    assert report.outcome == "proved"
    assert ("Add", "error") in kept(report)


def test_what_nothing_joins_has_one_scale():
    """Of an output that nothing joins the largest number is the scale, however small a whole column is."""
    one = np.full((32, 32), 100.0, np.float32)
    one[:, 3] = 1.0
    assert nearness().error("y", one, one + 0.5) == pytest.approx(0.005)


TIES = "s = Mul(x, tiny) t = Add(s, k) i = ArgMax<axis = -1, keepdims = 0>(t) z = Tanh(x)"
"""Which is largest is told by digits that float16 has not beside 1,000."""


def ties(**settings):
    """What comes of a conversion of the whole."""
    made = model(TIES, "(float[N, 64] x) => (int64[N] i, float[N, 64] z)",
                 weights="<float tiny = {0.00001}, float k = {1000}>")
    return made, {"keep": ["op:Tanh"], **settings}


def test_integers_of_which_too_many_are_others_are_not_proved():
    made, settings = ties()
    with pytest.raises(surgeon.CheckFailed, match=r"\d+ % of the elements of output 'i' \(not floats\) differ"):
        surgeon.convert(made, **settings)


def test_integers_that_are_all_others_are_never_proved():
    """Not even where any part of them may be."""
    made, settings = ties(max_error=1.0)
    x = 10 * np.arange(128, dtype=np.float32).reshape(2, 64)
    settings["options"] = surgeon.CheckOptions(inputs={"x": x})
    with pytest.raises(surgeon.CheckFailed, match="All elements of output 'i' .* differ"):
        surgeon.convert(made, **settings)


def test_what_integers_are_judged_by_is_said():
    made = model("h = Tanh(x) i = ArgMax<axis = -1>(x)", "(float[N, 64] x) => (float[N, 64] h, int64[N, 1] i)")
    _, report = converted(made, keep=["op:ArgMax"])
    assert report.outcome == "proved"
    assert report.others == {"i": 0.0}
    line = "output 'i' is not floats; 0 % of its elements differ (limit 1 %)"
    assert line in report.told


def test_the_length_of_a_sequence_is_reported_as_no_output():
    _, report = converted(model("e = Exp(x) y = SequenceConstruct(e, e)", "(float[N, 4] x) => (seq(float[N, 4]) y)"))
    assert (report.outcome, report.others) == ("proved", {})
    assert not any("is not floats" in text for text in report.told)


def test_a_model_whose_float32_rounds_nothing_is_not_reported_to_have_none():
    made = model("y = Greater(x, k)", "(float[N, 4] x) => (bool[N, 4] y)", weights="<float k = {0.5}>")
    _, report = converted(made)
    assert (report.outcome, outcome_words(report)) == ("unchanged", "nothing in it rounds float32")


def test_an_output_beyond_half_precision_reports_to_keep_its_dtype():
    made = model("a = Mul(x, big) y = Relu(a)", weights="<float big = {60000}>")
    with pytest.raises(CheckFailed, match=r"Output 'y' reaches [\d,.]+; the largest float16 is 65,504. .* --io keep"):
        converted(made, io="convert")


@pytest.mark.parametrize("place", [0, BLOCK, BLOCK + 2])
def test_each_part_of_a_large_output_is_compared(place):
    """The error and the scale come from any part: the largest error is 2, and the largest magnitude 8."""
    array, other = np.zeros((2, BLOCK + 3), np.float32), np.zeros((2, BLOCK + 3), np.float32)
    array[0, 0] = other[0, 0] = 8
    other[1, place] = 2
    deviation = OutputDeviation(onnx.GraphProto(), DtypeChange(onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16))
    assert deviation.error("y", array, other) == 0.25
    other[1, place] = np.nan
    assert deviation.error("y", array, other) == np.inf
