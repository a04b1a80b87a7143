"""Sealed faults differ from what they replace, and controls do not; nothing is proved here."""

from dataclasses import replace

import numpy as np
import pytest

import tests.mutation.sealed  # noqa: F401  fills the table
from tests import sampling
from tests.mutation.planted import PLANTED
from tests.mutation.sealing import (
    OUTCOMES,
    SEALED,
    Sealed,
    distance,
    lines,
    objection,
    objection_to_rule,
    outcome,
    passed,
)

STEP = 6  # of them one is taken out of so many
CASES = sampling.chosen(lambda: [*SEALED][::STEP], lambda: [*SEALED])
NEGATED = Sealed(
    kind="kind",
    sentence="a sign is lost",
    ports="(float[n] x) => (float[n] y)",
    original="a = Abs(x) y = Neg(a)",
    replacement="y = Abs(x)",
    opset=18,
    arrays={"x": [1.0, -2.0]},
    is_control=False,
)


@pytest.mark.parametrize("sentence", CASES)
def test_a_fault_differs_and_a_control_does_not(sentence: str) -> None:
    """By evaluation of both sides, and of the model that the rule writes."""
    assert objection(SEALED[sentence]) == ""
    assert objection_to_rule(SEALED[sentence]) == ""


def test_there_are_faults_of_each_kind_and_none_is_public() -> None:
    """At least ten of each kind, so that a count says something, and twenty controls."""
    faults = [one for one in SEALED.values() if not one.is_control]
    kinds = {one.kind for one in SEALED.values()}
    assert min(sum(one.kind == kind for one in faults) for kind in kinds) >= 10
    assert len(SEALED) - len(faults) >= 20
    assert not set(SEALED) & set(PLANTED)


def test_what_does_not_differ_is_no_fault() -> None:
    """Nor is a control right that differs."""
    assert objection(NEGATED) == objection_to_rule(NEGATED) == ""
    assert objection(replace(NEGATED, is_control=True)).startswith("the sides differ")
    same = replace(NEGATED, replacement=NEGATED.original)
    assert objection(same).startswith("the sides differ by only 0")
    assert objection(replace(same, is_control=True)) == ""
    assert objection(replace(NEGATED, replacement="y = Sub(x, absent)")).startswith("the replacement does not run")


def test_rounding_is_no_difference() -> None:
    """NaN, infinity, another shape and another integer are."""
    one = np.linspace(-3, 3, 9, dtype=np.float32)
    assert distance(one, np.nextafter(one, np.float32(9))) < 0.1
    assert distance(one, one * np.float32(1.001)) > 1
    assert distance(one, np.where(one > 2, np.float32(np.nan), one)) == np.inf
    assert distance(one, one[None]) == distance(np.arange(3), np.arange(3) + 1) == np.inf
    assert distance(np.zeros(3, np.float32), np.full(3, 1e-9, np.float32)) == np.inf


def test_the_proof_is_asked() -> None:
    """Of what is not sealed, as the outcomes of what is are the business of a release."""
    assert outcome(NEGATED) == "failed"
    assert outcome(replace(NEGATED, original="no text of a model")) == "error"
    assert {"failed", "error"} <= set(OUTCOMES)


def test_only_counts_are_reported() -> None:
    """By kind; names are listed of those that pass, without their code."""
    faults = [sentence for sentence, one in SEALED.items() if not one.is_control]
    right = next(sentence for sentence, one in SEALED.items() if one.is_control)
    found = {faults[0]: "failed", faults[1]: "unproved", faults[2]: "proved", faults[3]: "error", right: "failed"}
    table = lines(found)
    assert table[-1] == "stopped: 2 of 4 faults; passed: 1"
    assert not any(sentence in line for sentence in found for line in table)
    assert [line.rpartition(": ")[2] for line in passed(found)] == [faults[2], right]
