"""Rows that a mask hides whole, as left padding in a causal model does: what is said of them, and what counts."""

import json

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import surgeon
from surgeon.display.content.conversion import outcome_words
from surgeon.testing import parse
from tests.half_models import model

HEAD = "(int64[B, S] ids, int64[B, S] attention_mask) => (float[B, S, 8] y)"
WEIGHTS = """<int64 nil = {0}, int64 one = {1}, int64[1] first = {1}, float zero = {0}, float unit = {1},
    float low = {-3.4028234e38}>"""
SCORES = "x = Gather(table, ids) t = Transpose<perm = [0, 2, 1]>(x) s = MatMul(x, t)"
CAUSAL = "n = Shape(ids) e = Gather(n, one) r = Range(nil, e, one) i = Unsqueeze(r, first) c = LessOrEqual(r, i)"
SHOWN = "b = Cast<to = 9>(attention_mask) k = Unsqueeze(b, first)"
ENDED = "p = Softmax<axis = -1>(w) z = MatMul(p, x) y = MatMul(z, o)"
MASKS = {
    "added": "a = And(c, k) f = Where(a, zero, low) w = Add(s, f)",
    "causal chosen, padding added": "g = Where(c, s, low) f = Where(k, zero, low) u = Add(g, f) w = Max(u, low)",
    "padding as a factor": "h = Cast<to = 1>(k) q = Sub(unit, h) j = Mul(q, low) g = Where(c, zero, low) "
    "l = Add(j, g) v = Max(l, low) w = Add(s, v)",
    "the lower of two": "f = Where(k, zero, low) g = Where(c, zero, low) l = Min(f, g) w = Add(s, l)",
}


def attending(mask, scale=0.8):
    """A causal attention over a table of words."""
    made = model(f"{SCORES} {CAUSAL} {SHOWN} {mask} {ENDED}", HEAD, weights=WEIGHTS)
    random = np.random.default_rng(0)
    for name, shape, size in (("table", (16, 8), scale), ("o", (8, 8), 1)):
        weight = (size * random.normal(size=shape)).astype(np.float32)
        made.graph.initializer.append(numpy_helper.from_array(weight, name))
    return made


PADDED = {
    "ids": np.random.default_rng(0).integers(0, 16, (2, 6)),
    "attention_mask": np.array([[1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1]]),
}
LEFT = surgeon.CheckOptions(inputs=(PADDED,))


@pytest.mark.parametrize("mask", MASKS)
def test_a_conversion_says_how_far_they_move_beside_the_outcome(mask):
    _, report = surgeon.convert(attending(MASKS[mask]))
    assert report.outcome == "proved"
    assert report.hidden > 0.1
    assert f"fully masked rows change by {report.hidden:.2g}" in outcome_words(report)
    assert json.loads(json.dumps(report.to_dict()))["hidden"] == report.hidden


@pytest.mark.parametrize("mask", MASKS)
def test_segments_are_run_with_no_such_row_where_all_inputs_have_some(mask):
    """Roundings leave nothing of one."""
    _, report = surgeon.convert(attending(MASKS[mask]), options=LEFT)
    assert {stretch.outcome for stretch in report.stretches} == {"proved"}
    assert any("with the first key of 'attention_mask' visible" in text for text in report.told)


def test_masks_that_show_each_first_key_stay_as_they_are():
    right = {**PADDED, "attention_mask": PADDED["attention_mask"][:, ::-1].copy()}
    _, report = surgeon.convert(attending(MASKS["added"]), options=surgeon.CheckOptions(inputs=(right,)))
    assert report.outcome == "proved"
    assert not any("first key" in text for text in report.told)


@pytest.mark.parametrize("mask", MASKS)
def test_a_comparison_reports_them_apart_with_the_size(mask):
    original = attending(MASKS[mask])
    half, _ = surgeon.convert(original, check="none")
    result = surgeon.compare(original, half, inputs=PADDED)
    assert result.outcome.value == "proved"
    assert result.differs_on == ("fully masked rows",)
    assert "on fully masked rows: output 'y' differs by" in result.reason


def test_nothing_is_said_where_they_answer_alike():
    """All scores of such a row are one number then, in any dtype."""
    original = attending("a = And(c, k) w = Where(a, s, low)")
    half, report = surgeon.convert(original, options=LEFT)
    assert (report.outcome, report.hidden) == ("proved", None)
    assert surgeon.compare(original, half, inputs=PADDED).differs_on == ()


def doubled(made, name):
    """The same with a stored matrix twice as large."""
    other = onnx.ModelProto.FromString(made.SerializeToString())
    tensor = next(one for one in other.graph.initializer if one.name == name)
    tensor.CopyFrom(numpy_helper.from_array(2 * numpy_helper.to_array(tensor), name))
    return other


def test_rows_that_see_a_key_are_compared():
    original = attending(MASKS["added"])
    result = surgeon.compare(original, doubled(original, "o"), inputs=PADDED)
    assert result.outcome.value == "failed"


def test_a_comparison_of_hidden_rows_alone_proves_nothing():
    original = attending(MASKS["added"])
    blind = {**PADDED, "attention_mask": np.zeros_like(PADDED["attention_mask"])}
    result = surgeon.compare(original, doubled(original, "o"), inputs=blind)
    assert result.outcome.value == "unproved"
    assert "All rows of output 'y' are fully masked, so nothing was compared." in result.reason


def test_padding_in_front_is_no_hidden_row_where_rows_see_what_is_behind():
    """A model that is not causal answers there by the keys behind, and those answers count."""
    body = "h = Cast<to = 1>(attention_mask) q = Sub(unit, h) v = Unsqueeze(q, one1) g = Mul(v, x) u = Mul(g, two)"
    parts = f"{SCORES} {SHOWN} f = Where(k, zero, low) w = Add(s, f) p = Softmax<axis = -1>(w) z = MatMul(p, x)"
    weights = WEIGHTS.replace("<", "<int64[1] one1 = {2}, float two = {{0}}, ", 1)
    models = []
    for factor in (0, 3):
        made = model(f"{parts} {body} m = Add(z, u) y = MatMul(m, o)", HEAD,
                     weights=weights.replace("{{0}}", f"{{{factor}}}"))
        made.graph.initializer.extend(attending("w = Identity(s)").graph.initializer[-2:])
        models.append(made)
    result = surgeon.compare(*models, inputs=PADDED)
    assert result.outcome.value == "failed"


HALF = {"float16": 10, "bfloat16": 16}


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("turned", [False, True])
def test_the_tolerance_is_that_of_half_precision_where_either_model_computes_in_it(dtype, turned):
    wide = model("t = Tanh(x) y = Mul(t, x)")
    narrow = model(f"h = Cast<to = {HALF[dtype]}>(x) u = Cast<to = 1>(h) t = Tanh(u) y = Mul(t, u)")
    pair = (narrow, wide) if turned else (wide, narrow)
    result = surgeon.compare(*pair)
    assert (result.outcome.value, result.half) == ("proved", dtype)
    assert f"computes in half precision, so the tolerance of {dtype} applies." in result.reason
    assert surgeon.compare(*pair, rtol=1e-6, atol=1e-6).outcome.value == "failed"
    assert surgeon.compare(wide, wide).half == ""




def test_a_failure_names_the_kind_of_inputs():
    wide, other = model("y = Mul(x, x)"), model("a = Mul(x, x) y = Add(a, x)")
    result = surgeon.compare(wide, other)
    assert result.outcome.value == "failed"
    assert result.failed_on
    assert result.reason.rstrip(".").endswith(result.failed_on[0])
    assert result.to_dict()["failed_on"] == list(result.failed_on)


def test_a_failure_on_few_kinds_names_those_alone():
    """Numbers that neither model compares with anything are met by those of wide range alone."""
    weights = "<float down = {-20}, float up = {20}>"
    result = surgeon.compare(model("y = Identity(x)"), model("y = Clip(x, down, up)", weights=weights))
    assert result.outcome.value == "failed"
    assert "usual inputs" not in result.failed_on


def test_a_failure_on_inputs_of_the_users_names_these(tmp_path):
    np.savez(tmp_path / "mine.npz", x=np.ones((1, 4), np.float32))
    result = surgeon.compare(model("y = Mul(x, x)"), model("y = Add(x, x)"), inputs=tmp_path / "mine.npz")
    assert result.outcome.value == "failed"
    assert "the inputs from" in result.reason
    assert "mine.npz" in result.failed_on[0]


def test_scores_that_half_precision_rounds_beside_a_fill_keep_what_decides_such_rows():
    _, report = surgeon.convert(attending(MASKS["added"], scale=1.5), options=LEFT)
    assert (report.outcome, report.hidden) == ("proved", None)
    assert {item.op for item in report.kept} == {"Add", "Softmax"}


CHOICES = {
    "a lone bool": "(bool mask, float[4] x) => (float[4] y) { a = Tanh(x) y = Where(mask, a, x) }",
    "a lone number that is cast to bool": "(int64 attention_mask, float[4] x) => (float[4] y) "
    "{ b = Cast<to = 9>(attention_mask) a = Tanh(x) y = Where(b, a, x) }",
    "a lone float that is looked at": "(double mask) => (bool b, float y) "
    "{ f = Cast<to = 1>(mask) g = Floor(f) b = Cast<to = 9>(g) y = Tan(g) }",
    "a lone bool beside an integer": "(int8 i, bool mask) => (bool b, float y) <int8 nil = {0}> "
    "{ w = Where(mask, nil, i) b = Cast<to = 9>(w) f = Cast<to = 1>(w) y = Tanh(f) }",
    "an axis of keys without more": "(bool[4] mask, float[4] x) => (float[4] y) { a = Tanh(x) y = Where(mask, a, x) }",
}


@pytest.mark.parametrize("text", CHOICES.values(), ids=CHOICES)
def test_a_mask_without_keys_hides_no_rows(text):
    _, report = surgeon.convert(parse(text))
    assert report.outcome == "proved"
