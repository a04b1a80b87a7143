"""A failing case is reduced to a small one, which the reason of the failed proof states."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest

import surgeon
from surgeon import Graph, Tensor, rule
from surgeon.display.content.site import site_classes
from surgeon.proof.check_result import Outcome
from surgeon.proof.counterexample import without_names
from surgeon.proof.site import site_prover
from surgeon.proof.site.failure_reduction import MAX_RUNS, FailureReduction
from surgeon.proof.site.worker_proofs import prove_in_process
from surgeon.testing import parse
from tests.mutation.planting import LARGE, PLANTED, outcome, plant, plant_text

ROWS, ONE = "(float[n, 6] x) => (float[n, 6] y) ", "(float[n] x) => (float[n] y) "
MASKED = "(float[n, 6] x, int64[n, 6] m) => (float[n, 6] y) "
WORDS = "(string[n] x) => (bool[n] y) "
INTEGERS = "(int64[n] x) => (int64[n] y) "
PICKED = "(float[7, 4] t, int64[n] i) => (float[n, 4] y) "
SPECIAL = '; if this is intended, declare it in the rule: differs={"non_finite": "why"}'
NUMBERS = {"c": 2.5, "d": 2.6, "h": 0.5, "one": 1.0, "z": 0.0, "low": -1e4}
ENDS = {"zero": 0, "eight": 8, "end": 1 << 62, "two": 2, "last": 1}
WEIGHTS = {
    **{name: np.float32(number) for name, number in NUMBERS.items()},
    **{name: np.array([number]) for name, number in ENDS.items()},
}

# Ports, the original nodes, the replacement; then the reason, with # for any number and ~ for any strategy.
WRONG: dict[str, tuple[str, str, str, str]] = {
    "a constant": (
        ONE,
        "{ m = Mul(x, c) y = Neg(m) }",
        "{ m = Mul(x, d) y = Neg(m) }",
        "x = # gives # instead of #",
    ),
    "the side of a threshold": (
        ONE,
        "{ b = Greater(x, c) y = Where(b, x, z) }",
        "{ b = GreaterOrEqual(x, c) y = Where(b, x, z) }",
        "x = 2.5 gives 2.5 instead of 0.0 (by literals)",
    ),
    "the same in a row": (
        ROWS,
        "{ b = Greater(x, c) y = Where(b, x, z) }",
        "{ b = GreaterOrEqual(x, c) y = Where(b, x, z) }",
        "x[0, #] = 2.5 gives y[0, #] = 2.5 instead of 0.0 (by literals, zeros elsewhere, shapes [1, 6])",
    ),
    "NaN": (
        ROWS,
        "{ r = Relu(x) y = Neg(r) }",
        "{ b = Greater(x, z) r = Where(b, x, z) y = Neg(r) }",
        "x[0, #] = nan gives y[0, #] = -0.0 instead of nan (by special rows, zeros elsewhere, shapes [1, 6])" + SPECIAL,
    ),
    "a zero of the other sign": (
        ONE,
        "{ a = Add(x, z) y = Div(one, a) }",
        "{ y = Div(one, x) }",
        "x = -0.0 gives -inf instead of inf (by special rows)",
    ),
    "rounding of halves": (
        ONE,
        "{ r = Round(x) y = Neg(r) }",
        "{ a = Add(x, h) r = Floor(a) y = Neg(r) }",
        "x = 0.5 gives -1.0 instead of -0.0 (by literals)",
    ),
    "equal numbers": (
        "(float[n, 6] x) => (int64[n, 1] y) ",
        "{ a = ArgMax<axis = 1>(x) y = Neg(a) }",
        "{ a = ArgMax<axis = 1, select_last_index = 1>(x) y = Neg(a) }",
        "x[0, #] = inf and x[0, #] = inf give # instead of # (by special rows, zeros elsewhere, shapes [1, 6])"
        + SPECIAL,
    ),
    "an index": (
        PICKED,
        "{ g = Gather(t, i) y = Neg(g) }",
        "{ a = Max(i, zero) g = Gather(t, a) y = Neg(g) }",
        "i = -1 gives y[0, #] = # instead of # (by indices, usual inputs elsewhere, shapes [7, 4], [1])",
    ),
    "an index that is refused": (
        PICKED,
        "{ g = Gather(t, i) y = Neg(g) }",
        "{ a = Abs(i) g = Gather(t, a) y = Neg(g) }",
        "the replacement fails on inputs that the original accepts: [-7,6] (i = -7, by indices, zeros elsewhere, "
        "shapes [7, 4], [1])",
    ),
    "a mask": (
        MASKED,
        "{ b = Equal(m, zero) s = Where(b, low, x) y = Softmax(s) }",
        "{ b = Less(m, last) s = Where(b, low, x) y = Softmax(s) }",
        "m[0, #] = # gives y[0, #] = # instead of 0.0 (zeros elsewhere, shapes [1, 6], [1, 6])",
    ),
    "a size": (
        ROWS,
        "{ y = Relu(x) }",
        "{ t = Slice(x, zero, eight, zero) r = Relu(t) u = Slice(x, eight, end, zero) y = Concat<axis = 0>(r, u) }",
        "x[8, #] = # gives y[8, #] = # instead of 0.0 (by special rows, zeros elsewhere, shapes [9, 6])",
    ),
    "a string": (
        WORDS,
        '{ y = RegexFullMatch<pattern = "[0-9]+-x">(x) }',
        '{ y = RegexFullMatch<pattern = "[0-8]+-x">(x) }',
        "x = '9-x' gives False instead of True (by ~)",
    ),
    "an integer that wraps": (
        INTEGERS,
        "{ a = Cast<to = 6>(x) b = Cast<to = 7>(a) y = Neg(b) }",
        "{ y = Neg(x) }",
        "x = 9223372036854775807 gives -9223372036854775807 instead of 1 (by integers of every length)",
    ),
    "two elements together": (
        "(float[n, 6] x) => (float[n, 1] y) ",
        "{ b = Less(c, x) f = Cast<to = 1>(b) s = ReduceSum(f, last) y = Max(s, one) }",
        "{ b = Less(c, x) f = Cast<to = 1>(b) s = ReduceMax(f, last) y = Max(s, one) }",
        "x[0, #] = # and x[0, #] = # give 1.0 instead of 2.0 (by ~, zeros elsewhere, shapes [1, 6])",
    ),
}


def failed(monkeypatch, planted):
    """The reason at the one site, and the runs of its reductions."""
    runs = []
    reason = FailureReduction.reason
    monkeypatch.setattr(site_prover, "prove_cases", lambda cases, _: [prove_in_process(case) for case in cases])
    monkeypatch.setattr(FailureReduction, "reason", lambda self: (reason(self), runs.append(self.runs))[0])
    found, why = outcome(planted)
    assert found == "failed"
    return why, runs


@pytest.mark.parametrize("name", WRONG)
def test_a_failing_case_is_reduced(monkeypatch, name):
    *sides, expected = WRONG[name]
    plant_text("reduction", name, *sides, 20, **WEIGHTS)
    why, (runs,) = failed(monkeypatch, PLANTED.pop(name))
    assert 1 < runs < 0.6 * MAX_RUNS
    message = re.sub("INVALID_ARGUMENT .*inclusive range ", "", why)
    text = re.escape(expected).replace(re.escape("#"), r"-?\d[\d.e+-]*").replace(re.escape("~"), "[a-z ]+")
    assert re.fullmatch(text, message), message


def test_a_weight(monkeypatch):
    """The weight that is made up is named; the site fails with the model's weights too, which hold zeros."""
    text = f"(float[n, {LARGE}] x) => (float[n, {LARGE}] y) {{ t = Mul(x, w) y = Div(t, w) }}"
    zeros = np.where(np.arange(LARGE) % 7 == 3, 0.0, 1.5).astype(np.float32)
    plant("reduction", "w / w", text, lambda g, x, w: g.div(g.mul(x, w), w), lambda g, x: g.identity(x), w=zeros)
    why, (runs,) = failed(monkeypatch, PLANTED.pop("w / w"))
    assert runs <= MAX_RUNS
    assert (
        why
        == "w[4999] = 0.0 gives y[0, 4999] = 0.0 instead of nan (by weights, zeros elsewhere, shapes [1, 5000], [5000])"
    )


def test_a_case_that_needs_many_elements_stops_early(monkeypatch):
    """Each of 200 elements is needed, and the reason names the first."""
    sides = (
        "(float[n, 200] x) => (float[n, 1] y) ",
        "{ m = ReduceMin(x, last) y = Max(m, z) }",
        "{ m = ReduceMin(x, last) k = Mul(m, d) y = Max(k, z) }",
    )
    plant_text("reduction", "minimum", *sides, 20, **WEIGHTS)
    why, (runs,) = failed(monkeypatch, PLANTED.pop("minimum"))
    assert runs < MAX_RUNS
    assert re.match(r"x\[0, 0\] = .*, x\[0, 1\] = .*, x\[0, 2\] = .* and 19\d more numbers give ", why)


@rule(patterns=[lambda g, x: g.relu(g.relu(x))])
def doubled(g: Graph, x: Tensor) -> Tensor:
    return g.mul(g.relu(x), 2.0)


def test_equal_sites_name_their_own_tensors_and_are_reported_once():
    text = """(float[n, 4] x) => (float[n, 4] y, float[n, 4] w)
        { a = Relu(x) y = Relu(a) s = Sin(x) b = Relu(s) w = Relu(b) }"""
    _, report = surgeon.rewrite(parse(text), doubled, keep_going=True)
    one, other = [site.reason for site in report.rolled_back]
    assert one.startswith("x[0, 2] = ")
    assert other == one.replace("x[", "s[").replace("y[", "w[")
    assert without_names(one) == without_names(other)
    assert len(site_classes(report.rolled_back)) == 1


@pytest.mark.skipif(os.name != "posix", reason="signals of processes")
def test_a_reduction_that_ends_its_process_leaves_the_failure_as_it_was():
    """A part of the case divides the smallest integer by -1, which no processor does."""

    @rule(patterns=[lambda g, x: g.relu(g.relu(x))])
    def divides_by_zeros(g: Graph, x: Tensor) -> Tensor:
        has_zeros = g.reduce_max(g.cast(g.equal(x, 0.0), to="int64"))
        quotient = g.div(np.array([-(2**63)]), g.sub(1, g.mul(has_zeros, 2)))
        return g.add(g.mul(g.relu(x), 2.0), g.cast(g.max(quotient, 0), to="float32"))

    text = "(float[n, 4] x) => (float[n, 4] y) { a = Relu(x) y = Relu(a) }"
    _, report = surgeon.rewrite(parse(text), divides_by_zeros, keep_going=True)
    (site,) = report.rolled_back
    assert site.proof.outcome is Outcome.FAILED
    assert site.reason.startswith("'y' differs from the float64 reference by ")
    assert site.reason.endswith("(inputs usual, shapes [3, 4])")
    assert site.proof.worst.name == "y"
    assert site.proof.runs == 1
