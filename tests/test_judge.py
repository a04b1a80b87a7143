"""Judging a rewritten region's tensors: what a result may differ by, and in words what is wrong with it."""

import json
import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from surgeon.runtime.numerics.allowances import JudgeSettings
from surgeon.runtime.numerics.sensitivity import Sensitivity
from surgeon.runtime.numerics.tensor_judge import TensorError, judge_tensor, worst_error

pytestmark = pytest.mark.filterwarnings("error")

NAN, INF = math.nan, math.inf
FLOATS = ("float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2")


def ask(original, rewritten, reference=None, moved=0.0, dtype="float32", **options) -> TensorError:
    """Judge lists of numbers of one dtype against a float64 list."""
    made = [np.array(array).astype(np.dtype(dtype)) for array in (original, rewritten)]
    right = None if reference is None else np.array(reference, np.float64)
    return judge_tensor("y", *made, right, moved, JudgeSettings(np.dtype(dtype), **options))


def far(by: float, allowed: float, scale: float, own: float) -> str:
    """The words for an element that is too far from the reference."""
    numbers = f"by {by} (limit {allowed}, values up to {scale})"
    return f"differs from the float64 reference {numbers}; the original differs by {own}"


# original, rewritten, reference -> what is wrong (float32: 2e-5 of the scale is allowed)
CASES = {
    "equal": ([1, 2], [1, 2], [1, 2], ""),
    "within tolerance": ([1, 100], [1.0005, 100], [1, 100], ""),
    "beyond tolerance": (
        [1, 100],
        [1.5, 100],
        [1.0625, 100],
        far(0.438, 0.002, 100, 0.0625),
    ),
    "beyond, without a reference": (
        [1, 100],
        [1.5, 100],
        None,
        "differs from the original by 0.5 (limit 0.002, values up to 100)",
    ),
    "more accurate than the original": ([1.5, 1], [1, 1], [1, 1], ""),
    "as bad as the original, on the other side": ([1.5, 1], [0.5, 1], [1, 1], ""),
    "NaN where NaN": ([NAN, 1], [NAN, 1], [NAN, 1], ""),
    "inf where inf": ([INF, -INF], [INF, -INF], [INF, -INF], ""),
    "NaN where -inf": (
        [-INF, -INF, 1],
        [NAN, NAN, 1],
        [-INF, -INF, 1],
        "is NaN instead of -inf (2 of 3 elements)",
    ),
    "the sign of infinity": ([INF, 1], [-INF, 1], [INF, 1], "is -inf instead of inf (1 of 2 elements)"),
    "finite where inf": ([INF, 1], [3e38, 1], [INF, 1], "is finite instead of inf (1 of 2 elements)"),
    "inf where finite": ([1, 1], [INF, 1], [1, 1], "is inf instead of finite (1 of 2 elements)"),
    "NaN without a reference": ([1, 1], [NAN, 1], None, "is NaN instead of finite (1 of 2 elements)"),
    "NaN and a difference": (
        [1, 1],
        [NAN, 2],
        [1, 1],
        "is NaN instead of finite (1 of 2 elements), and " + far(1, 2e-05, 1, 0),
    ),
    "overflow in the output's dtype": ([INF, 1], [INF, 1], [1e39, 1], ""),
    "no overflow where the dtype has one": (
        [INF, 1],
        [1, 1],
        [1e39, 1],
        "is finite instead of inf (1 of 2 elements)",
    ),
    "the original overflowed, the rewrite too": ([INF, 1], [INF, 1], [5, 1], ""),
    "the original overflowed, the rewrite is right": ([INF, 1], [5, 1], [5, 1], ""),
    "the original lost to NaN, the rewrite too": ([NAN, 1], [NAN, 1], [5, 1], ""),
    "the original lost to NaN, the rewrite is right": ([NAN, 1], [5, 1], [5, 1], ""),
    "the original lost to NaN, the rewrite overflowed": ([NAN, 1], [INF, 1], [5, 1], ""),
    "the original overflowed, the rewrite is neither": (
        [INF, 1],
        [NAN, 1],
        [5, 1],
        "is NaN, the original is inf, and the float64 reference is finite (1 of 2 elements)",
    ),
    "the original overflowed, the rewrite is wrong": (
        [NAN, 1],
        [7, 1],
        [5, 1],
        far(2, 0.0001, 5, 0).replace("differs by 0", "is NaN"),
    ),
    "the original is finite, its reference not": ([7, 1], [7, 1], [INF, 1], ""),
    "as the reference, which is not finite": ([7, 1], [INF, 1], [INF, 1], ""),
    "neither the original nor a reference that is not finite": (
        [7, 1],
        [8, 1],
        [INF, 1],
        "is finite, the original is finite, and the float64 reference is inf (1 of 2 elements)",
    ),
    "denormals are below what matters": ([1e-40, 0], [0, 0], [1.1e-40, 0], ""),
    "0-d": (1.0, 2.0, 1.0, far(1, 2e-05, 1, 0)),
    "0-d, right": (1.0, 1.0, 1.0, ""),
    "empty": ([], [], [], ""),
    "empty, without a reference": ([], [], None, ""),
    "a reference of another shape is none": ([1, 2], [1, 2], [7, 7, 7], ""),
}  # fmt: skip


def test_an_original_that_is_wrong_itself_excuses_and_is_doubted() -> None:
    """No rounding makes 2 of 1: a kernel is at fault, and whatever else is as wrong is not proved by it."""
    right, wrong = np.array([1.0, 1.0]), np.array([2.0, 1.0], np.float32)
    error = judge_tensor("y", wrong, wrong, right, 1e-7)
    assert (error.ok, error.original_error) == (True, 1.0)
    assert judge_tensor("y", wrong, right.astype(np.float32), right, 1e-7).original_error == 0
    assert judge_tensor("y", right.astype(np.float32), right.astype(np.float32), right, 1e-7).original_error == 0


@pytest.mark.parametrize("case", CASES)
def test_floats(case: str) -> None:
    """Each case says in words, with numbers, what is wrong, or nothing."""
    original, rewritten, reference, why = CASES[case]
    error = ask(original, rewritten, reference)
    assert error.why == why
    assert error.ok == (why == "")
    assert (error.severity > 1) == (why != "")
    json.dumps(error.to_dict(), allow_nan=False)


def test_an_original_that_errs_shows_what_rounding_does_here() -> None:
    """A result may err four times as much elsewhere, as far as rounding moves the reference: a mean is never exact."""
    assert ask([1e-4, 0], [0, -3e-4], [0, 0], moved=1e-5).ok
    assert not ask([1e-4, 0], [0, -5e-4], [0, 0], moved=1e-5).ok
    assert not ask([0, 0], [0, -3e-4], [0, 0], moved=1e-5).ok
    assert not ask([1e-4, 0], [0, -3e-4], [0, 0]).ok, "nothing says that it rounded"


@pytest.mark.parametrize(
    ("original", "rewritten", "why"),
    [
        ([1.5, 1], [1, 1], ""),
        ([1.5, 1], [0.5, 1], ""),
        ([1.5, 1], [0.25, 1], far(0.75, 0.0256, 1, 0.5)),
        ([1.5, 1], [1, 1.5], far(0.5, 0.0256, 1, 0)),
        ([1.005, 1], [1, 1.0175], ""),
        ([1.005, 1], [1, 1.0285], far(0.0285, 0.02, 1, 0)),
    ],
)
def test_an_overflow_is_no_rounding(original: list[float], rewritten: list[float], why: str) -> None:
    """On large inputs a large error of the original excuses a like one in its own place alone."""
    assert ask(original, rewritten, [1, 1], moved=0.0004, overflowing=True).why == why


# dtype -> just too large for it, just below its largest number
LIMITS = {"float16": (65600.0, 65472.0), "float32": (3.4029e38, 3.4028e38), "bfloat16": (3.4e38, 3.38e38)}


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("sign", [1, -1])
def test_the_edge_of_the_range_is_a_matter_of_rounding(dtype: str, sign: int) -> None:
    """Just below the largest number and infinity are no further apart than two numbers; far below, they are."""
    beyond, below = sign * LIMITS[dtype][0], sign * LIMITS[dtype][1]
    assert ask([below], [sign * INF], [below], dtype=dtype).ok
    assert ask([sign * INF, 1], [below, 1], [beyond, 1], dtype=dtype, rtol=0.1, atol=abs(below) / 50).ok
    assert not ask([below], [-sign * INF], [below], dtype=dtype).ok
    assert not ask([below / 2], [sign * INF], [below / 2], dtype=dtype).ok
    assert not ask([sign * INF, 1], [below / 2, 1], [beyond, 1], dtype=dtype).ok


def test_large_inputs_may_overflow_the_reference_too() -> None:
    """log(1 + exp(1e4)) is infinite in float64 too, and Softplus right; at infinite inputs nothing is forgiven."""
    assert ask([INF, 1], [1e4, 1], [INF, 1], overflowing=True).ok
    assert ask([NAN, 1], [0.5, 1], [NAN, 1], overflowing=True).ok
    assert ask([INF, 1], [1e4, 1], overflowing=True).ok
    assert not ask([INF, 1], [1e4, 1], [INF, 1]).ok
    assert not ask([INF, 1], [1e4, 1], [1e39, 1], overflowing=True).ok, "here the reference knows"
    assert not ask([1, 1], [INF, 1], [1, 1], overflowing=True).ok


def test_over_the_top_the_sign_of_infinity_is_chance() -> None:
    """Partial sums overflow both ways and meet as NaN in one order, and in another as infinity of either sign."""
    assert ask([NAN, 1], [-INF, 1], [1e39, 1], overflowing=True).ok
    assert ask([NAN, 1], [INF, 1], [-1e39, 1], overflowing=True).ok
    assert not ask([NAN, 1], [INF, 1], [-1e39, 1]).ok
    assert not ask([INF, 1], [-INF, 1], [1e39, 1], overflowing=True).ok
    assert not ask([NAN, 1], [5, 1], [1e39, 1], overflowing=True).ok


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_infinity_is_not_the_largest_number_where_a_bound_makes_that(dtype: str) -> None:
    """Max(x, -3.4e38) lets no minus infinity pass; where inputs are large, a sum may stop just before it."""
    most = float(ml_dtypes.finfo(np.dtype(dtype)).max)
    for bound, beyond in ((-most, -INF), (most, INF)):
        assert not ask([bound, 1], [beyond, 1], [bound, 1], dtype=dtype).ok
        assert ask([bound, 1], [beyond, 1], [bound, 1], dtype=dtype, overflowing=True).ok
        assert ask([bound, 1], [beyond, 1], [bound * (1 - 1e-9), 1], dtype=dtype).ok


def test_a_clip_without_a_bound_has_one_of_its_kernels_own() -> None:
    """In float64 the reference is the same kernel, whose bound is the largest number."""
    most = np.finfo(np.float64).max
    assert ask([most, 1], [INF, 1], [most, 1], dtype="float64").ok


@pytest.mark.parametrize("dtype", FLOATS)
def test_deviations_are_in_the_outputs_own_units(dtype: str) -> None:
    """One number further is one unit in the last place, at 1, just below 1, at subnormals, and relative to itself."""
    limits = ml_dtypes.finfo(np.dtype(dtype))
    unit, least = 2.0 ** -int(limits.nmant), float(limits.smallest_subnormal)
    for right, wrong in ((1.0, 1 + unit), (1 - unit / 2, 1 - unit), (-1.0, -1 - unit), (3 * least, 2 * least)):
        error = ask([right], [wrong], [right], dtype=dtype)
        assert error.rewritten.max_ulp == 1.0
        assert error.rewritten.max_abs == abs(wrong - right)
        assert error.rewritten.max_rel == pytest.approx(abs(wrong - right) / abs(right))
        assert error.original is not None
        assert error.original.max_abs == error.original.max_ulp == 0.0


def test_the_reference_is_finer_than_the_output() -> None:
    """A right result is half a unit off at most, and a small element's relative error is no news."""
    error = ask([1, 1e-6], [1, 2e-6], [1 + 2.0**-25, 1e-6])
    assert error.rewritten.max_ulp == 0.25
    assert error.rewritten.max_rel < 1e-7
    assert error.rewritten.max_abs == pytest.approx(1e-6)
    assert error.scale == 1e-6, "the small element is judged beside its like"
    wide = judge_tensor("y", np.ones(1), np.ones(1), np.array([1], np.longdouble) + np.longdouble(2) ** -60, 0.0)
    assert wide.original is not None
    assert wide.original.max_ulp == wide.rewritten.max_ulp


def test_what_is_allowed() -> None:
    """Tolerances by dtype or the caller's own, slack, and four times what the reference moves by."""
    assert ask([2], [2], [2]).allowed == pytest.approx(4e-5)
    assert ask([2], [2], [2], dtype="float16").allowed == pytest.approx(1e-2, rel=1e-3)
    assert ask([2], [2], [2], rtol=0.5, atol=0.25).allowed == 1.25
    assert ask([2], [2], [2], rtol=0, atol=0, intended_error=0.25).allowed == 0.75
    assert ask([2], [2], [2], moved=1.0, rtol=0, atol=0).allowed == 4.0
    assert ask([2], [6], [2], moved=1.0, rtol=0, atol=0).ok
    assert not ask([2], [6.1], [2], moved=1.0, rtol=0, atol=0).ok
    assert ask([2], [2], [2], moved=INF).severity == 0
    assert ask([2], [2], [2]).is_informative
    assert not ask([2], [2], [2], moved=1.0).is_informative, "zero would pass"
    assert ask([2], [2], dtype="int64").is_informative


@pytest.mark.parametrize(
    ("rewritten", "why"),
    [
        (np.ones(2, np.float16), "is float16, but float32 in the original"),
        (np.ones(2, np.float64), "is float64, but float32 in the original"),
        (np.ones((1, 2), np.float32), "has shape [1, 2], but [2] in the original"),
        (np.ones((), np.float32), "has shape [], but [2] in the original"),
        (np.array(["a", "b"]), "is string, but float32 in the original"),
    ],
)
def test_another_dtype_or_shape(rewritten: np.ndarray, why: str) -> None:
    """Whatever the values and the tolerance."""
    original = np.ones(2, np.float32)
    error = judge_tensor("y", original, rewritten, np.ones(2), INF, JudgeSettings(original.dtype, 1.0, 1.0))
    assert error.why == why
    assert error.severity == math.inf
    assert error.to_dict() == {
        "name": "y",
        "dtype": "float32",
        "original": None,
        "rewritten": {"max_abs": "inf", "max_rel": "inf", "max_ulp": "inf"},
        "gap": 0.0,
        "scale": 0.0,
        "allowed": 0.0,
        "severity": "inf",
        "ok": False,
        "why": why,
    }


@pytest.mark.parametrize(
    ("original", "rewritten", "reference", "why"),
    [
        (np.array([2, 3]), np.array([2, 3]), None, ""),
        (np.array([2, 3]), np.array([2, 4]), None, "differs in 1 of 2 elements, by 1 at most"),
        (np.array([2, 3]), np.array([2, 4]), np.array([2, 4]), ""),
        (np.array([2, 3], np.int8), np.array([2, 4], np.int8), np.array([2.0, 4.0]), ""),
        (np.array([2, 3]), np.array([2, 3]), np.array([2, 4]), ""),
        (np.array([2, 3]), np.array([3, 4]), np.array([2, 4]), "differs in 1 of 2 elements, by 1 at most"),
        (np.array([2, 3]), np.array([2, 5]), np.array([2, 4]), "differs in 1 of 2 elements, by 2 at most"),
        (np.array(2**60), np.array(2**60 + 1), None, "differs in 1 of 1 elements, by 1 at most"),
        (np.array([0], np.uint8), np.array([255], np.uint8), None, "differs in 1 of 1 elements, by 255 at most"),
        (np.array([True, False]), np.array([True, True]), None, "differs in 1 of 2 elements"),
        (np.array([True, False]), np.array([True, True]), np.array([True, True]), ""),
        (np.array(["a", "b"], object), np.array(["a", "b"]), None, ""),
        (np.array(["a", "b"], object), np.array(["a", "longer"], object), None, "differs in 1 of 2 elements"),
        (np.array([], np.int64), np.array([], np.int64), None, ""),
        (np.array([2], "int4"), np.array([3], "int4"), None, "differs in 1 of 1 elements, by 1 at most"),
    ],
)  # fmt: skip
def test_integers_booleans_and_strings(original, rewritten, reference, why) -> None:
    """Equal to the original, or at a tie equal to the reference; no tolerance and no noise excuses them."""
    error = judge_tensor("y", original, rewritten, reference, 100.0, JudgeSettings(original.dtype, 1.0, 100.0))
    assert error.why == why
    assert error.ok == (why == "")
    assert error.severity == (math.inf if why else 0.0)
    json.dumps(error.to_dict(), allow_nan=False)


def test_the_deviations_of_integers() -> None:
    """Both are told from the reference, in ones and as a part of the largest."""
    error = judge_tensor("y", np.array([10, 3]), np.array([10, 4]), np.array([10, 4]), 0.0)
    assert error.original is not None
    assert (error.original.max_abs, error.original.max_ulp, error.original.max_rel) == (1.0, 1.0, 0.1)
    assert error.rewritten.max_abs == 0.0


def test_complex_numbers() -> None:
    """By magnitude; what is infinite or NaN agrees in place."""
    right = np.array([3 + 4j, complex(INF, 1)])
    original = right.astype(np.complex64)
    assert judge_tensor("y", original, original, right, 0.0).ok
    assert judge_tensor("y", original, np.array([3 + 4j, complex(-INF, 0)], np.complex64), right, 0.0).ok
    assert not judge_tensor("y", original, np.array([3 + 4j, 1], np.complex64), right, 0.0).ok
    error = judge_tensor("y", original, np.array([3 + 5j, INF], np.complex64), right, 0.0)
    assert (error.ok, error.rewritten.max_abs, error.scale) == (False, 1.0, 5.0)


def test_the_worst() -> None:
    """A failure goes before everything that passes; infinite severity before finite."""
    fine = ask([1], [1], [1])
    near = ask([1], [1.00001], [1])
    far, other = ask([1], [2], [1]), ask([1], [NAN], [1])
    assert worst_error([fine, near]) is near
    assert worst_error([far, near, fine]) is far
    assert worst_error([fine, far, other]) is other
    with pytest.raises(ValueError, match="empty"):
        worst_error([])


NUMBERS = st.floats(width=32, allow_subnormal=True)
KINDS = st.sampled_from(FLOATS)


@given(st.data(), KINDS, arrays.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3))
def test_equal_results_pass_against_any_reference(data: st.DataObject, dtype: str, shape: tuple[int, ...]) -> None:
    """A rewrite that changes nothing is right, whatever the original is worth."""
    original = data.draw(arrays.arrays(np.float32, shape, elements=NUMBERS))
    with np.errstate(all="ignore"):
        original = original.astype(np.dtype(dtype))
    reference = data.draw(st.none() | arrays.arrays(np.float64, shape, elements=st.floats()))
    error = judge_tensor("y", original, original.copy(), reference, 0.0)
    assert error.ok, error.why
    assert error.severity <= 1
    json.dumps(error.to_dict(), allow_nan=False)


@given(st.data(), arrays.arrays(np.float64, st.integers(1, 6), elements=st.floats(-1e4, 1e4)), st.floats(0, 10))
def test_one_element_too_far_is_found(data: st.DataObject, reference: np.ndarray, moved: float) -> None:
    """Unless the original is as far there."""
    noise = data.draw(arrays.arrays(np.float64, reference.shape, elements=st.floats(-20, 20)))
    original = (reference + noise).astype(np.float32)
    asked = JudgeSettings(original.dtype, overflowing=data.draw(st.booleans()))
    fine = judge_tensor("y", original, reference.astype(np.float32), reference, moved, asked)
    assert fine.ok, fine.why
    place = data.draw(st.integers(0, reference.size - 1))
    wrong = reference.astype(np.float32)
    # What is allowed is told of the worst place, and numbers like it: here of that one.
    wrong[place] += np.float32(1e12)
    allowed = judge_tensor("y", original, wrong, reference, moved, asked).allowed
    wrong = reference.astype(np.float32)
    # What the original errs by there is no fault of the rewritten one, and what is allowed comes on top of it.
    beyond = allowed + float(np.abs(original - reference).max())
    wrong[place] += np.float32(data.draw(st.sampled_from((-1, 1))) * beyond * data.draw(st.floats(1.5, 1e4)))
    error = judge_tensor("y", original, wrong, reference, moved, asked)
    worse = abs(float(original[place]) - reference[place]) >= abs(float(wrong[place]) - reference[place])
    assert error.ok == worse
    if not worse:
        assert error.severity > 1
        assert error.rewritten.max_abs > error.allowed
        assert error.why.startswith("differs from the float64 reference by ")


@pytest.mark.parametrize(("jumps", "rewritten", "ok"), [(1.0, 3.0, True), (0.0, 3.0, False), (1.0, 7.0, False)])
def test_a_jump_excuses_its_own_element_alone(jumps: float, rewritten: float, ok: bool) -> None:
    """What may fall to either side may do so, and nothing beside it."""
    still = np.zeros(4)
    moved = Sensitivity(still, np.array([jumps, 0, 0, 0]), still)
    right = np.array([2.0, 2.5, 2.5, 2.5])
    assert ask(right, [rewritten, 2.5, 2.5, 2.5], right, moved).ok is ok
    assert not ask(right, [2.0, 3.0, 2.5, 2.5], right, moved).ok


def test_an_element_is_judged_beside_its_like() -> None:
    """What hides a score is no scale to judge others by, and neither is a large element."""
    lowest = float(np.finfo(np.float32).min)
    assert not ask([lowest, 1, 2], [lowest, 1.001, 2], [lowest, 1, 2]).ok
    assert not ask([1e4, 1e-3, 2e-3], [1e4, 1.1e-3, 2e-3], [1e4, 1e-3, 2e-3]).ok
    assert not ask([3, 1e9, 2], [3.001, 1e9, 2], [3, 1e9, 2]).ok


def test_whole_numbers_that_nothing_rounds_are_counted() -> None:
    """Counts up to a million may differ by twenty as floats, and by none as counts."""
    assert not ask([1e6, 5], [1e6, 6], [1e6, 5]).ok
    assert not ask([1e6, 5], [1e6 - 1, 5], [1e6, 5]).ok
    assert ask([1e6, 5.5], [1e6 - 1, 5.5], [1e6, 5.5]).ok


def test_large_floats_are_whole_without_being_counted() -> None:
    """Beyond 2^24 every float32 is whole; only a reference in float64 that it hits tells that nothing rounded it."""
    large, near = [3.0e9, -7.0e9], [3.0e9 * (1 + 1e-6), -7.0e9]
    assert ask(large, near).ok
    assert not ask(large, near, np.float32(large).tolist()).ok
    assert not ask([3.0, 2.0**24], [4.0, 2.0**24]).ok
    assert not ask(large, [3.0e9 * (1 + 1e-3), -7.0e9]).ok
