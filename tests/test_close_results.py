"""Results that pass because of the original alone, without a reference: the same ones that pass with it."""

import math
import re

import ml_dtypes
import numpy as np
import onnx
import pytest

import surgeon
from surgeon.proof.judge.error_summary import ErrorSummary
from surgeon.runtime.numerics.allowances import JudgeSettings
from surgeon.runtime.numerics.close_results import judge_close
from surgeon.runtime.numerics.sensitivity import Sensitivity
from surgeon.runtime.numerics.tensor_judge import judge_tensor
from surgeon.testing import parse
from tests.command_line import run
from tests.judging_twice import judging_twice
from tests.mutation.subjects import fixtures

NAN, INF = math.nan, math.inf
STEP = 300
"""Of the models of the rules' tests one in so many, which takes seconds."""


def is_close(original, rewritten, dtype="float32", **settings):
    """Whether a result passes without a reference."""
    one, other = (np.array(numbers).astype(np.dtype(dtype)) for numbers in (original, rewritten))
    return judge_close("y", one, other, JudgeSettings(one.dtype, **settings)) is not None


@pytest.mark.parametrize(("original", "rewritten", "passes"), [
    ([1.5, 2.5], [1.5, 2.5], True),
    ([1.5, NAN, INF], [1.5, NAN, INF], True),
    ([1.5, NAN, INF], [1.50001, NAN, INF], True),
    ([1.5, NAN], [1.50001, 2.5], False),
    ([1.5, 2.5], [1.50001, NAN], False),
    ([1.5, INF], [1.50001, -INF], False),
    ([1.5, 0.0], [1.5, 1e-5], False),
    ([1.5, 0.0], [1.5, 1e-9], True),
    ([1.5, 0.25], [1.5, 0.25002], True),
    ([1.5, 0.25], [1.5, 0.2501], False),
    ([1.5, 4.0, 1e-2], [1.5, 4.0, 1.00001e-2], True),
    ([1.5, 4.0, 1e-2], [1.5, 4.0, 1.001e-2], False),
    ([1e6, 2.0], [1e6 + 1, 2.0], False),
    ([1e6, 2.5], [1e6 + 1, 2.5], True),
    ([], [], True),
])  # fmt: skip
def test_what_is_close(original, rewritten, passes):
    """2e-5 of the largest number of similar magnitude; integers may be counts."""
    assert is_close(original, rewritten) == passes


def test_signs_of_zeros_are_bits():
    """They differ only where something behind them divides."""
    assert is_close([0.0, 1.5], [-0.0, 1.5])
    assert not is_close([0.0, 1.5], [-0.0, 1.5], signed_zeros=True)
    assert is_close([-0.0, 1.5], [-0.0, 1.5], signed_zeros=True)


def test_a_tolerance_of_the_user_is_all_that_counts():
    """It is a part of the largest number, as documented."""
    assert not is_close([1.5, 2.5], [1.5, 2.50001], rtol=0.0)
    assert is_close([1.5, 2.5], [1.6, 2.5], rtol=0.0, atol=0.125)
    assert is_close([1.5, 2.5], [1.5, 2.5], rtol=0.0, atol=0.0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float64", "complex64", "int8", "bool"])
def test_equal_bits_pass_in_each_dtype(dtype):
    """And another number does not."""
    assert is_close([1, 0], [1, 0], dtype)
    assert not is_close([1, 0], [0, 0], dtype)


def test_strings_and_shapes():
    """Strings are equal whatever holds them; another shape or dtype is for the judge."""
    words = np.array(["a", "b"], object)
    settings = JudgeSettings(words.dtype)
    assert judge_close("y", words, np.array(["a", "b"]), settings) is not None
    assert judge_close("y", words, np.array(["a", "c"]), settings) is None
    ones = np.ones(2, ml_dtypes.bfloat16)
    assert judge_close("y", ones, np.ones((1, 2), ml_dtypes.bfloat16), JudgeSettings(ones.dtype)) is None
    assert judge_close("y", ones, np.ones(2, np.float16), JudgeSettings(ones.dtype)) is None


def test_the_severity_is_the_largest_part_of_the_limit():
    """Of any element."""
    one, other = np.array([1.5, 1.0], np.float32), np.array([1.5, 1.0 + 1e-5], np.float32)
    error = judge_close("y", one, other, JudgeSettings(one.dtype))
    assert error is not None
    assert error.severity == pytest.approx(1e-5 / (1.5 * 2e-5), rel=0.02)
    assert error.allowed == pytest.approx(1.5 * 2e-5)
    assert (error.gap, error.scale) == (pytest.approx(1e-5, rel=0.02), 1.5)
    assert error.because == "float32 rounds"


@pytest.mark.parametrize("by", [0.0, 1e-5])
def test_the_reason_for_a_limit_that_was_given(by):
    """For equal results and for close ones."""
    one, other = np.array([1.5, 1.0], np.float32), np.array([1.5, 1.0 + by], np.float32)
    error = judge_close("y", one, other, JudgeSettings(one.dtype, rtol=1e-3))
    assert error is not None
    assert error.because == "the user set the tolerance"


def test_proofs_judge_alike_with_a_reference_for_every_result():
    """No result is accepted that the full judgement rejects, nor the other way round."""
    with judging_twice() as found:
        for subject in fixtures()[5::STEP]:
            surgeon.rewrite(subject.model, subject.rules, target=subject.target, check="sites", keep_going=True)
    assert found.unlike == []
    assert found.doubted == []
    assert found.counts["equal bits"] + found.counts["close"] > found.counts["judged"] > 0


def judged(moved=0.0, **settings):
    """A right result of one number, against a reference that moves."""
    two = np.array([2], np.float32)
    return judge_tensor("y", two, two, np.array([2.0]), moved, JudgeSettings(two.dtype, **settings))


def test_the_reason_for_a_limit():
    """It is the largest allowance of the largest number."""
    assert judged().because == "float32 rounds"
    assert judged().limit_over_scale == pytest.approx(2e-5)
    assert judged(rtol=0.5).because == "the user set the tolerance"
    assert judged(intended_error=0.25).because == "the rule declares approximate=0.25"
    assert judged(absolute_error=100.0).because == "kernels of such functions err this much near 1"
    assert judged(0.25).because == "intermediate rounding may change it"
    jumps = Sensitivity(np.zeros(1), np.ones(1), np.zeros(1))
    assert judged(jumps).because == "an intermediate value may be rounded up or down"


def test_a_note_on_a_limit_above_one_per_cent():
    """Unless some run on usual inputs had a smaller one."""
    summary, two = ErrorSummary(()), np.array([2], np.float32)
    summary.add(judged(0.02), two, "float64", is_usual=True)
    reason = "because intermediate rounding may change it"
    assert summary.loose_limit_note() == f"'y' may be off by 4 % of its largest value on all inputs, {reason}"
    summary.add(judged(), two, "float64", is_usual=False)
    assert summary.loose_limit_note() != ""
    summary.add(judged(), two, "float64", is_usual=True)
    assert summary.loose_limit_note() == ""


@pytest.mark.parametrize(("number", "percent", "outcome"), [
    (2**15, "", "PROVED 1 of 1 site;"), (2**19, "9", "PROVED 1 of 1 site;"), (2**24, "288", "UNPROVED 0 of 1 site"),
])  # fmt: skip
def test_a_loose_limit_is_on_the_first_screen(number, percent, outcome, tmp_path):
    """What is added and taken off again rounds x: up to a part, a note says so; beyond, the site is unproved.

    The error is one number, a part of the limit.
    """
    text = f"(float[n, 8] x) => (float[n, 8] y) <float b = {{{number}}}> {{ a = Add(x, b)  c = Sub(a, b)  y = Neg(c) }}"
    onnx.save(parse(text), tmp_path / "in.onnx")
    (tmp_path / "rules.py").write_text(
        "from surgeon import rule\n\n\ndef found(g, x, b):\n    return g.neg(g.sub(g.add(x, b), b))\n\n\n"
        "@rule(patterns=[found], target='any')\ndef moved(g, x, b):\n    return g.sub(g.sub(b, x), b)\n"
    )
    done = run("rewrite", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), f"--rules={tmp_path / 'rules.py'}")
    assert done.exit_code == 0, done.output
    text = " ".join(done.output.split())
    note = f"'y' may be off by {percent} % of its largest value on all inputs, because intermediate rounding"
    assert (note in text) == bool(percent)
    assert outcome in text
    assert len(re.findall(r"largest error 0\.\d+ of the limit \(moved at y\)", text)) == 1
    assert "is allowed" not in text
