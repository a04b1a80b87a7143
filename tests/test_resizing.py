"""Resize and Upsample in float64: against ONNX Runtime, onnx's evaluator and onnx's cases."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.runtime.sessions.reference_evaluator import EvaluatorSession
from tests import sampling
from tests.onnx_cases import LONG_BEFORE_ROUNDING, array_of, cases_of
from tests.single_ops import by_formula, by_onnx, by_reference, by_runtime, require_same

RANDOM = np.random.default_rng(0)
MODES = ("nearest", "linear", "cubic")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
PLACES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric")
SCALES = (1, 2, 3, 0.5, 0.6, 0.7, 1 / 3, 1.7, 2.5)
NONE = np.zeros(0, dtype=np.float32)


def normal(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def floats(*numbers):
    return np.array(numbers, dtype=np.float32)


def require_equal_to_runtime(op, feeds, **attributes):
    found, wanted = by_formula(op, feeds, **attributes), by_runtime(op, feeds, **attributes)
    require_same(found, wanted, 2e-4, 2e-4)


@settings(max_examples=sampling.examples(250), deadline=None)
@given(st.data())
def test_any_resize(data):
    """By scales or by sizes, each axis differently."""
    draw = data.draw
    mode = draw(st.sampled_from(MODES))
    attributes = {"mode": mode, "coordinate_transformation_mode": draw(st.sampled_from(PLACES)), "opset": 19}
    if mode == "nearest":
        attributes["nearest_mode"] = draw(st.sampled_from(ROUNDINGS))
        # half_pixel_symmetric's last digit, on which ties hang, is that of one order of operations in float32.
        attributes["coordinate_transformation_mode"] = draw(st.sampled_from(PLACES[:-1]))
    else:
        attributes["antialias"] = draw(st.integers(0, 1))
    if mode == "cubic":
        attributes["exclude_outside"] = draw(st.integers(0, 1))
        attributes["cubic_coeff_a"] = draw(st.sampled_from([-0.5, -0.75]))
    shape = [2, 1, draw(st.integers(1, 7)), draw(st.integers(1, 7))]
    scales = [1, 1, draw(st.sampled_from(SCALES)), draw(st.sampled_from(SCALES))]
    feeds = {"x": normal(*shape), "roi": None}
    counts = np.array([int(np.float32(scale) * np.float32(size)) for scale, size in zip(scales, shape, strict=True)])
    if draw(st.booleans()) or not counts.all():
        feeds["scales"] = floats(*(max(scale, 1 / size) for scale, size in zip(scales, shape, strict=True)))
    else:
        feeds |= {"scales": None, "sizes": counts}
    require_equal_to_runtime("Resize", feeds, **attributes)


@pytest.mark.parametrize("by", ["sizes", "scales"])
@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_a_tie_between_two_sizes_is_one(by, count, rounding):
    """The element at 3.5 of seven: divided by the scale in float32 it would stand at 3.4999998."""
    feeds = {"x": normal(1, 1, 7, 1), "roi": None, "scales": None, "sizes": np.array([1, 1, count, 1])}
    if by == "scales":
        feeds |= {"scales": floats(1, 1, np.float32(count) / np.float32(7), 1), "sizes": None}
    places = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": rounding}
    require_equal_to_runtime("Resize", feeds, mode="nearest", opset=19, **places)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("places", PLACES)
def test_against_onnxs_evaluator(mode, places):
    """Upwards alone: downwards that one divides by sizes that are no whole numbers.  Its cubic weights are float32."""
    attributes = {"mode": mode, "coordinate_transformation_mode": places, "opset": 19}
    feeds = {"x": normal(1, 2, 3, 4), "roi": None, "scales": floats(1, 1, 2, 3)}
    wide = {"x": feeds["x"].astype(np.float64), "roi": None, "scales": feeds["scales"]}
    near = 1e-5 if mode == "cubic" else 1e-11
    require_same(by_formula("Resize", feeds, **attributes), by_onnx("Resize", wide, **attributes), near, near)


@pytest.mark.parametrize("mode", MODES)
def test_a_region(mode):
    feeds = {"x": normal(1, 1, 5, 6), "roi": floats(0, 0, -0.25, 0.25, 1, 1, 0.75, 1.5), "scales": floats(1, 1, 2, 0.5)}
    attributes = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
    require_equal_to_runtime("Resize", feeds, **attributes)
    assert (by_formula("Resize", feeds, **attributes)[0] == 7).any()


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller", "stretch"])
def test_some_axes_and_their_ratio(policy):
    feeds = {"x": normal(1, 2, 6, 4), "roi": None, "scales": None, "sizes": np.array([9, 9])}
    attributes = {"mode": "linear", "axes": [2, 3], "keep_aspect_ratio_policy": policy}
    require_equal_to_runtime("Resize", feeds, opset=18, **attributes)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scale", [2.0, 1.5, 0.5])
def test_before_opset_11(mode, scale):
    """Resize took scales alone; Upsample took them as an attribute, then as an input, and only upwards."""
    x, scales = normal(1, 1, 4, 4), floats(1, 1, scale, 2)
    require_equal_to_runtime("Resize", {"x": x, "scales": scales}, mode=mode, opset=10)
    if scale > 1:
        require_equal_to_runtime("Upsample", {"x": x, "scales": scales}, mode=mode, opset=9)
        require_equal_to_runtime("Upsample", {"x": x}, mode=mode, opset=7, scales=scales.tolist())


def test_the_size_is_rounded_in_float32():
    """Ten times float32's 0.7 is seven there, and less in float64."""
    feeds = {"x": normal(1, 1, 10), "roi": None, "scales": floats(1, 1, 0.7)}
    (found,) = by_formula("Resize", feeds)
    assert found.shape == by_runtime("Resize", feeds)[0].shape == (1, 1, 7)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
def test_the_nearest_of_integers(dtype):
    x = RANDOM.integers(0, 99, size=(1, 1, 4, 5)).astype(dtype)
    feeds = {"x": x, "roi": None, "scales": floats(1, 1, 2, 0.5)}
    (found,) = by_formula("Resize", feeds)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, by_runtime("Resize", feeds)[0])


def test_a_nan_touches_its_neighbours_alone():
    x = normal(1, 1, 6, 6)
    x[0, 0, 2, 3], x[0, 0, 5, 0] = np.nan, np.inf
    feeds = {"x": x, "roi": None, "scales": floats(1, 1, 2, 2)}
    require_equal_to_runtime("Resize", feeds, mode="linear")
    assert np.isnan(by_formula("Resize", feeds, mode="linear")[0]).sum() == 16


REFUSED = {
    "disagree on roi for an axis of scale 1": {
        "roi": floats(0, 0, 0.5, 1),
        "scales": floats(2, 1),
        "coordinate_transformation_mode": "tf_crop_and_resize",
    },
    "needs the input roi": {"scales": floats(1, 2), "coordinate_transformation_mode": "tf_crop_and_resize"},
    "of 1 axes": {"scales": floats(2, 2), "axes": [1]},
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_refused(reason):
    attributes = dict(REFUSED[reason])
    if "roi" in attributes:
        attributes["roi"] = floats(0, 0.25, 0.5, 0.75)
    feeds = {"x": normal(3, 4), "roi": attributes.pop("roi", None), "scales": attributes.pop("scales")}
    with pytest.raises(SessionError, match=reason):
        by_formula("Resize", feeds, opset=18, **attributes)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("op", ["Resize", "Upsample"])
def test_onnxs_cases(op):
    cases = [case for case in cases_of(op) if case.name not in LONG_BEFORE_ROUNDING]
    assert cases
    for case in cases:
        given_, wanted = ([array_of(item) for item in side] for side in case.data_sets[0])
        feeds = {port.name: array for port, array in zip(case.model.graph.input, given_, strict=True)}
        with EvaluatorSession(case.model) as one:
            require_same(list(one.run(feeds).values()), wanted, 1e-4, 1e-5)


def test_none_of_onnxs_own_is_used(monkeypatch):
    from onnx.reference.ops import op_resize

    monkeypatch.setattr(op_resize.Resize, "_run", None)
    feeds = {"x": normal(1, 1, 3, 4), "roi": None, "scales": floats(1, 1, 2, 2)}
    name, answers = by_reference("Resize", feeds, mode="linear")
    assert name == "float64 under onnx's ReferenceEvaluator"
    require_same(answers, by_runtime("Resize", feeds, mode="linear"), 1e-5, 1e-5)
