"""Results that pass because of the original alone, without a reference: the same ones that pass with it."""

import math

import ml_dtypes
import numpy as np
import pytest

import surgeon
from surgeon.runtime.numerics.close_results import judge_close
from surgeon.runtime.numerics.float_judge import JudgeSettings
from tests.judging_twice import judging_twice
from tests.mutation.subjects import fixtures

NAN, INF = math.nan, math.inf
STEP = 300
"""Of the models of the rules' tests one in so many, which takes seconds."""


def is_close(original, rewritten, dtype="float32", **settings):
    """Whether a result passes without a reference."""
    one, other = (np.array(numbers).astype(np.dtype(dtype)) for numbers in (original, rewritten))
    return judge_close("y", one, other, JudgeSettings.of(one.dtype, **settings)) is not None


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
    assert not is_close([0.0, 1.5], [-0.0, 1.5], has_signs=True)
    assert is_close([-0.0, 1.5], [-0.0, 1.5], has_signs=True)


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
    settings = JudgeSettings.of(words.dtype)
    assert judge_close("y", words, np.array(["a", "b"]), settings) is not None
    assert judge_close("y", words, np.array(["a", "c"]), settings) is None
    ones = np.ones(2, ml_dtypes.bfloat16)
    assert judge_close("y", ones, np.ones((1, 2), ml_dtypes.bfloat16), JudgeSettings.of(ones.dtype)) is None
    assert judge_close("y", ones, np.ones(2, np.float16), JudgeSettings.of(ones.dtype)) is None


def test_the_severity_is_the_largest_part_of_the_limit():
    """Of any element."""
    one, other = np.array([1.5, 1.0], np.float32), np.array([1.5, 1.0 + 1e-5], np.float32)
    error = judge_close("y", one, other, JudgeSettings.of(one.dtype))
    assert error is not None
    assert error.severity == pytest.approx(1e-5 / (1.5 * 2e-5), rel=0.02)
    assert error.allowed == pytest.approx(1.5 * 2e-5)
    assert (error.gap, error.scale) == (pytest.approx(1e-5, rel=0.02), 1.5)


def test_proofs_judge_alike_with_a_reference_for_every_result():
    """No result is accepted that the full judgement rejects, nor the other way round."""
    with judging_twice() as found:
        for subject in fixtures()[3::STEP]:
            surgeon.rewrite(subject.model, subject.rules, target=subject.target, check="sites", keep_going=True)
    assert found.unlike == []
    assert found.doubted == []
    assert found.counts["equal bits"] + found.counts["close"] > found.counts["judged"] > 0
