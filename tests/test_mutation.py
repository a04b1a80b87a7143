"""A sample of the mutants, the wrong rules written by hand, and a sample of right rewrites."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import onnxruntime
import pytest

from surgeon.testing import parse
from tests import sampling
from tests.mutation import recorded
from tests.mutation.judging import HOLE, SAME, difference, judge
from tests.mutation.measuring import OUTCOMES
from tests.mutation.planted import PLANTED, outcome
from tests.mutation.right import Right, by_algebra, by_words, loses_digits
from tests.mutation.right import outcome as of_right
from tests.mutation.tolerated import Tolerated
from tests.mutation.words import forms

STEP = 300  # of right rewrites one is taken out of so many
WORDS = sampling.chosen(lambda: [6], lambda: [1])[0]  # of words one out of so many, as each is built in all its forms


def test_a_sample_of_mutants_is_judged_as_recorded() -> None:
    """Nothing that was killed survives, and what survived is no longer recorded as a hole once it is killed."""
    wanted = recorded.read(recorded.MUTANTS)
    wanted = dict(sampling.chosen(lambda: [*wanted.items()][::5], lambda: [*wanted.items()]))
    found = {one.mutant.title: one.outcome for one in recorded.outcomes(recorded.sampled(wanted))}
    assert set(wanted.values()) <= set(OUTCOMES)
    assert found == wanted, "mend it, or record anew: python -m tests.mutation --sample --record"


def test_holes_that_were_mended_stay_closed() -> None:
    """Wrong for tiny or for large numbers alone, for a total of 8, or where minus infinity stands alone in a row."""
    wanted = recorded.read(recorded.MENDED)
    found = {one.mutant.title: one.outcome for one in recorded.outcomes(recorded.sampled(wanted))}
    assert HOLE not in wanted.values()
    assert found == wanted


@pytest.mark.parametrize("name", PLANTED)
def test_a_wrong_rule_is_judged_as_recorded(name: str) -> None:
    """What is recorded as proved is a known hole."""
    found, reason = outcome(PLANTED[name])
    assert found == recorded.read(recorded.PLANTED)[name], reason


@pytest.mark.parametrize("source", [by_algebra, partial(by_words, WORDS)], ids=["by_algebra", "by_words"])
def test_right_rewrites_are_not_called_wrong(source: Callable[[], Iterator[Right]]) -> None:
    """They may be unproved, but they are written."""
    every = list(source())
    sample = every[:: min(STEP, len(every) // 2)]
    assert sample
    found = {one.name: of_right(one) for one in sample}
    assert {name: reason for name, (said, reason) in found.items() if said not in ("proved", "unproved")} == {}


ABS = "(float[n, 4] x) => (float[n, 4] y) { y = Abs(x) }"


def test_the_judge_distinguishes_a_wrong_model_from_a_right_one() -> None:
    """One that is wrong for tiny numbers alone is a hole; one that is written otherwise is the same."""
    original, right = parse(ABS), parse(ABS.replace("y = Abs(x)", "m = Neg(x) y = Max(x, m)"))
    body = "a = Abs(x) k = Greater(a, low) y = Where(k, a, low)"
    wrong = parse(ABS.replace("{ y = Abs(x) }", f"<float low = {{1e-6}}> {{ {body} }}"))
    assert judge(original, right, wrong).kind == HOLE
    assert judge(original, original, right).kind == SAME


def test_the_judge_excuses_rounding_and_what_the_rule_itself_does() -> None:
    """A few units in the last place pass, and as much as the unchanged replacement differs by; 1 % does not."""
    numbers = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)
    assert not difference(numbers, numbers, np.nextafter(numbers, np.float32(9)))
    assert difference(numbers, numbers, numbers * np.float32(1.01))
    assert not difference(numbers, numbers * np.float32(1.01), numbers * np.float32(1.01))
    infinite = np.where(numbers > 2, np.float32(np.inf), numbers)
    assert difference(infinite, infinite, np.nan_to_num(infinite))


def test_a_mutant_that_is_refused_is_no_other_form_of_the_rule() -> None:
    """TensorRT's plugin takes images as int32: where that is changed, what is written there is RoiAlign, and right."""
    (found,) = recorded.outcomes(recorded.sampled(["roi_align/to the plugin | roi_align | attribute: 2 Cast to = 7"]))
    assert (found.outcome, found.reason) == ("refused", "another form of the rule is written there")


def test_a_variance_of_two_passes_by_one_is_no_right_rewrite() -> None:
    """It loses digits where the mean is far from zero, and is left out; the other way round it is right."""
    made = forms("variance_over")
    rows = np.random.default_rng(0).standard_normal((5, 3, 4)).astype(np.float32) + np.float32(1e4)
    errors = []
    for model in made:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        (found,) = session.run(None, {"x": rows})
        errors.append(float(np.abs(found - rows.astype(np.float64).var(axis=-1, keepdims=True)).max()))
    worse = [at for at, model in enumerate(made) if loses_digits(made[0], model)]
    assert len(worse) == 3
    assert min(errors[at] for at in worse) > 100 * max(error for at, error in enumerate(errors) if at not in worse)
    assert not any(loses_digits(made[at], made[0]) for at in worse)


def test_a_survivor_is_within_what_is_declared_or_a_hole() -> None:
    """The part of one by which kernels err, a rule's own tolerance, and units of narrow inputs; nothing else."""
    small = {"x": np.full((2, 4), 1e-6, np.float32)}
    softmax = Tolerated(parse("(float[n, 4] x) => (float[n, 4] y) { y = Softmax(x) }"), slack=1e-3)
    answer = np.full((2, 4), 0.25, np.float32)
    allowed = [np.max(found) for _, found in softmax.of(small, answer)]
    assert allowed == pytest.approx([1.25e-3, 4e-6])
    gelu = Tolerated(parse("(float[n, 4] x) => (float[n, 4] y) { y = Tanh(x) }"))
    assert [np.max(found) for _, found in gelu.of(small, answer)] == pytest.approx([4e-12])
    places = Tolerated(
        parse("(float[1, 1, 4, 4] x, float[1, 2, 4, 2] p) => (float[1, 1, 2, 4] y) { y = GridSample(x, p) }")
    )
    assert [np.max(found) for _, found in places.of(small, answer)] == pytest.approx([4e-6]), "as proofs allow"
    wider = Tolerated(parse("(float16[n, 4] x) => (float[n, 4] y) { y = Cast <to = 1> (x) }"))
    (units,) = (found for _, found in wider.of({"x": answer.astype(np.float16)}, answer))
    assert np.max(units) == pytest.approx(0.25 * 4 * 2**-10)
