"""A sample of the mutants, the wrong rules written by hand, and a sample of right rewrites."""

import pytest

from tests.mutation import recorded
from tests.mutation.measuring import OUTCOMES
from tests.mutation.planted import PLANTED, outcome
from tests.mutation.right import Right, by_algebra, by_words
from tests.mutation.right import outcome as of_right

STEP = 60  # of right rewrites one is taken out of so many
RIGHT = [*by_algebra(), *by_words()][::STEP]


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


@pytest.mark.parametrize("one", RIGHT, ids=lambda one: f"{one.source}, {one.name}")
def test_a_right_rewrite_is_not_called_wrong(one: Right) -> None:
    """It may be unproved, but it is written."""
    found, reason = of_right(one)
    assert found in ("proved", "unproved"), reason
