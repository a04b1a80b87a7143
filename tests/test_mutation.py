"""A sample of the mutants, the wrong rules written by hand, and a sample of right rewrites."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from surgeon.testing import parse
from tests.mutation import recorded
from tests.mutation.judging import HOLE, SAME, difference, judge
from tests.mutation.measuring import OUTCOMES
from tests.mutation.planted import PLANTED, outcome
from tests.mutation.right import Right, by_algebra, by_words
from tests.mutation.right import outcome as of_right

STEP = 60  # of right rewrites one is taken out of so many


def test_a_sample_of_mutants_is_judged_as_recorded() -> None:
    """Nothing that was killed survives, and what survived is no longer recorded as a hole once it is killed."""
    wanted = recorded.read(recorded.MUTANTS)
    found = {one.mutant.title: one.outcome for one in recorded.outcomes(recorded.sampled(wanted))}
    assert set(wanted.values()) <= set(OUTCOMES)
    assert found == wanted, "mend it, or record anew: python -m tests.mutation --sample --record"


@pytest.mark.parametrize("name", PLANTED)
def test_a_wrong_rule_is_judged_as_recorded(name: str) -> None:
    """What is recorded as proved is a known hole."""
    found, reason = outcome(PLANTED[name])
    assert found == recorded.read(recorded.PLANTED)[name], reason


@pytest.mark.parametrize("source", [by_algebra, by_words])
def test_right_rewrites_are_not_called_wrong(source: Callable[[], Iterator[Right]]) -> None:
    """They may be unproved, but they are written."""
    sample = list(source())[::STEP]
    assert sample
    found = {one.name: of_right(one) for one in sample}
    assert {name: reason for name, (said, reason) in found.items() if said not in ("proved", "unproved")} == {}


ABS = "(float[n, 4] x) => (float[n, 4] y) { y = Abs(x) }"


def test_the_judge_tells_a_wrong_model_from_a_right_one() -> None:
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
