"""Smooth and discontinuous outputs under rounding perturbation."""

from dataclasses import replace
from functools import partial

import numpy as np
import onnx
import pytest

from surgeon.runtime.numerics.rounding_perturbation import AMPLITUDE_INPUT, SEED_INPUT, perturb_rounding
from surgeon.runtime.numerics.sensitivity import STEP_FRACTION, Sensitivity, classify_sensitivity
from surgeon.runtime.numerics.sensitivity_probe import DIRECTIONS, MAX_DIRECTIONS, SensitivityProbe
from surgeon.runtime.numerics.tensor_judge import judge_tensor
from surgeon.runtime.sessions.float64_reference import Float64Reference
from surgeon.runtime.sessions.ort_session import SessionError

F32 = np.dtype(np.float32)


def read(body: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {body}')


def answers(model: onnx.ModelProto, feeds, amount: float, turn: int = 0):
    with Float64Reference(model, change=perturb_rounding) as reference:
        return reference.run({**feeds, AMPLITUDE_INPUT: np.asarray(amount), SEED_INPUT: np.asarray(turn)})


def test_a_smooth_move_is_in_proportion_and_a_jump_is_not():
    right = np.array([1.0, 2.0, 3.0])
    full, part = np.array([1 + 1e-6, 3.0, 3.0]), np.array([1 + 1e-6 * STEP_FRACTION, 2.0, 3.0])
    found = classify_sensitivity(right, F32, [], [(full, part)])
    assert found.smooth == pytest.approx([1e-6, 0, 0], rel=1e-6)
    assert found.jumps.tolist() == [0, 1, 0]
    by_inputs = classify_sensitivity(right, F32, [(full, part)], [])
    assert by_inputs.jumps.tolist() == [0, 0, 0], "inputs are what they are"
    assert by_inputs.inputs == pytest.approx([1e-6, 0, 0], rel=1e-6)


def test_a_jump_of_the_smaller_move_alone_is_one_too():
    found = classify_sensitivity(np.array([2.0]), F32, [], [(np.array([2.0]), np.array([3.0]))])
    assert (found.smooth.tolist(), found.jumps.tolist()) == ([0], [1])


def test_what_is_not_finite_does_not_move():
    right = np.array([np.inf, np.nan, 1e39])
    found = classify_sensitivity(right, F32, [], [(np.zeros(3), np.zeros(3))])
    assert not found.smooth.any()
    assert not found.jumps.any()


ROUNDED = read("g (float[n] x) => (float[n] y) <float s = {0.1}> { d = Div(x, s) y = Round(d) }")
EXACT = read("g (float[n] x) => (float[n] y) <float s = {0.5}> { d = Div(x, s) y = Round(d) }")
TIES = {"x": np.array([0.25, 1.25, 2.0], np.float32)}


def test_a_tie_behind_a_rounded_number_falls_to_either_side():
    found = {tuple(answers(ROUNDED, TIES, 1.0, turn)["y"]) for turn in range(8)}
    assert len(found) > 1


def test_a_tie_behind_an_exact_number_does_not():
    found = {tuple(answers(EXACT, TIES, 1.0, turn)["y"]) for turn in range(8)}
    assert found == {(0.0, 2.0, 4.0)}


def test_the_same_turn_goes_the_same_way():
    model = read("g (float[n] x) => (float[n] y) { e = Exp(x) y = Neg(e) }")
    feeds = {"x": np.linspace(0.1, 1, 7, dtype=np.float32)}
    still, full, part = (answers(model, feeds, amount)["y"] for amount in (0.0, 1.0, STEP_FRACTION))
    assert np.abs(full - still).min() > 0
    assert (part - still) / (full - still) == pytest.approx(np.full(7, STEP_FRACTION), rel=1e-6)
    other = answers(model, feeds, 1.0, 1)["y"]
    assert (np.sign(other - still) != np.sign(full - still)).any()


def test_half_precision_is_perturbed_by_units_of_its_own():
    model = read("g (float16[n] x) => (float16[n] y) { y = Exp(x) }")
    feeds = {"x": np.array([0.3, 0.7], np.float16)}
    moved = np.abs(answers(model, feeds, 1.0)["y"] / answers(model, feeds, 0.0)["y"] - 1)
    assert moved == pytest.approx([2.0**-10] * 2)


def test_what_rounds_nothing_cannot_be_perturbed():
    with pytest.raises(SessionError):
        Float64Reference(read("g (float[n] x) => (float[n] y) { y = Neg(x) }"), change=perturb_rounding)


def test_each_of_many_ties_is_given_time_to_fall():
    """Four directions let most of them jump, and not all: the others are no fault either."""
    feeds = {"x": ((np.arange(256) + 0.5) * 0.1).astype(np.float32)}
    with Float64Reference(ROUNDED) as wide, SensitivityProbe(ROUNDED, {}, (), lambda: wide, wide.run, ()) as moves:
        right = wide.run(feeds)["y"]
        jumps = [moves.sensitivity("y", right, F32, feeds, turn).jumps > 0 for turn in range(MAX_DIRECTIONS)]
        few, some = (np.any(jumps[:turns], axis=0) for turns in (DIRECTIONS, MAX_DIRECTIONS))
        assert few.sum() < some.sum() < few.size
        own = right.astype(np.float32)
        other = np.where(some, own + np.where(feeds["x"] / np.float32(0.1) > own, 1, -1), own).astype(np.float32)
        assert moves.judge(partial(judge_tensor, "y", own, other, right), "y", right, F32, feeds).ok
        wrong = np.where(some, own, own + 1).astype(np.float32)
        assert not moves.judge(partial(judge_tensor, "y", own, wrong, right), "y", right, F32, feeds).ok


CENTRED = read(
    """g (float[32] x, float[32] c) => (float[32] y) {
    s = Add(x, c) o = Shape(s) k = ConstantOfShape<value = float[1] {1}>(o) y = LayerNormalization(s, k) }"""
)


def test_a_number_that_is_like_no_other_is_given_more_samples(monkeypatch):
    """The one at the mean: its class is it alone, and of four directions none may move it as far as rounding does."""
    drawn, others = np.random.default_rng(140), np.arange(32) != 4
    x, c = 1000 + drawn.standard_normal(32), drawn.standard_normal(32)
    x[4], c[4] = 1000, 0
    x[others] -= (x + c - 1000)[others].sum() / 31
    feeds = {"x": x.astype(np.float32), "c": c.astype(np.float32)}
    with Float64Reference(CENTRED) as wide, SensitivityProbe(CENTRED, {}, (), lambda: wide, wide.run, ()) as moves:
        right = wide.run(feeds)["y"]
        moved = [moves.sensitivity("y", right, F32, feeds, turn).smooth[4] for turn in range(MAX_DIRECTIONS)]
        few, some = max(moved[:DIRECTIONS]), max(moved)
        assert few < 0.7 * some

        def passes(part):
            other = (right + part * ~others).astype(np.float32)
            asked = partial(judge_tensor, "y", right.astype(np.float32), other, right)
            return moves.judge(asked, "y", right, F32, feeds).ok

        assert passes(4.5 * some)
        assert not passes(20 * some)
        monkeypatch.setattr("surgeon.runtime.numerics.sensitivity_probe._NEAR", 0.0)
        assert not passes(4.5 * some)


def test_what_passes_and_is_blurred_is_given_few_turns():
    """A search for rare jumps, which takes many runs, is for what does not pass."""
    feeds = {"x": ((np.arange(256) + 0.5) * 0.1).astype(np.float32)}
    with Float64Reference(ROUNDED) as wide, SensitivityProbe(ROUNDED, {}, (), lambda: wide, wide.run, ()) as moves:
        right, asked = wide.run(feeds)["y"], []

        def blurred(moved):
            asked.append(moved)
            return replace(judge_tensor("y", right, right, right, moved), is_hidden=True)

        assert moves.judge(blurred, "y", right, F32, feeds).ok
        assert np.any(asked[-1].jumps)
        assert len(asked) == 1 + DIRECTIONS


def test_an_original_on_the_other_side_of_a_tie_is_not_in_doubt():
    """It and the result err alike, by what rounding carries both."""
    feeds = {"x": np.array([0.15, 0.25, 0.35], np.float32)}
    with Float64Reference(ROUNDED) as wide, SensitivityProbe(ROUNDED, {}, (), lambda: wide, wide.run, ()) as moves:
        right = wide.run(feeds)["y"]
        jumps = np.any(
            [moves.sensitivity("y", right, F32, feeds, turn).jumps > 0 for turn in range(DIRECTIONS)], axis=0
        )
        other = np.where(jumps, np.floor(feeds["x"] * 10) * 2 + 1 - right, right).astype(np.float32)
        asked = partial(judge_tensor, "y", other, other, right)
        assert asked(Sensitivity.uniform(0.0)).original_error
        found = moves.judge(asked, "y", right, F32, feeds)
        assert (found.ok, found.original_error) == (True, 0)
