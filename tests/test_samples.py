"""What follows from samples of latencies: on loads as a machine of two states makes them, with measured noise."""

from math import comb, inf, log

import numpy as np
import pytest

from surgeon.runtime.timing.load_batches import is_precise_enough
from surgeon.runtime.timing.samples import (
    EQUAL,
    FASTER,
    FEWEST,
    SLOWER,
    UNDECIDED,
    Interval,
    LatencySamples,
    interval,
    intervals,
    outcome_of,
    states,
)
from tests.bench_results import samples_of

SLOW = log(1.5)
"""How much longer everything takes while the machine is slow: BERT was measured at 6.1 and at 9.3 ms."""
NOISE = (0.005, 0.012, 0.017, 0.023, 0.046, 0.15)
"""Of one load: of a processor's time, of a decode step, and of several threads on a busy machine."""


def drawn(
    random: np.random.Generator, noise: float, difference: float = 0.0, slow: slice = slice(0), loads: int = 24
) -> LatencySamples:
    """Loads of an original and of a model that differs from it.  slow: the loads in the slow state."""
    logs = random.normal(log(6e-3), noise, (loads, 2))
    logs[slow] += SLOW
    logs[:, 1] += log(1 + difference)
    return samples_of(logs)


@pytest.mark.parametrize("count", [6, 12, 24, 101])
def test_the_interval_is_that_of_the_sign_test(count: int) -> None:
    """Its ends are the k-th from either side, k the largest for which at most 2.5 % have fewer on one side."""
    found = interval(samples_of([(0.0, log(place)) for place in range(count, 0, -1)]), 1)
    k = round(found.low)
    assert (found.low, found.high) == pytest.approx((k, count + 1 - k))
    assert sum(comb(count, place) for place in range(k)) / 2**count <= 0.025
    assert sum(comb(count, place) for place in range(k + 1)) / 2**count > 0.025
    assert (found.loads, found.reference_milliseconds) == (count, pytest.approx(1e3))


def test_few_loads_tell_nothing() -> None:
    (found,) = intervals(samples_of([(0.0, -1.0)] * 5), 1)
    assert (found.low, found.high, found.outcome) == (0.0, inf, UNDECIDED)


@pytest.mark.parametrize("loads", [6, 12, 24])
@pytest.mark.parametrize("noise", NOISE)
def test_equal_models_differ_in_few_intervals(noise: float, loads: int) -> None:
    """At most 5 % of 1,000 leave out 1, whatever the state of the machine in a stretch of the loads."""
    random = np.random.default_rng(loads)
    found: list[Interval] = []
    while len(found) < 1000:
        start, length = random.integers(loads), random.integers(loads)
        found += intervals(drawn(random, noise, slow=slice(start, start + length), loads=loads), 1)
    assert sum(not one.low <= 1 <= one.high for one in found) <= 0.05 * len(found)


@pytest.mark.parametrize("loads", [12, 24])
def test_equal_models_differ_in_few_intervals_when_imprecise_ones_go_on(loads: int) -> None:
    """A ratio that is not known to a per cent gets twice the loads, which is another chance to be wrong."""
    random, missed = np.random.default_rng(7), 0
    for _ in range(1000):
        samples = drawn(random, 0.012, loads=loads)
        if not is_precise_enough(samples, 0.01):
            samples += drawn(random, 0.012, loads=loads)
        (found,) = intervals(samples, 1)
        missed += not found.low <= 1 <= found.high
    assert missed <= 50


@pytest.mark.parametrize("noise", [0.005, 0.012])
@pytest.mark.parametrize("difference", [-0.02, 0.02])
def test_two_per_cent_are_found_in_24_loads(noise: float, difference: float) -> None:
    random = np.random.default_rng(2)
    words = [outcome_of(intervals(drawn(random, noise, difference), 1)) for _ in range(200)]
    assert words.count(SLOWER if difference > 0 else FASTER) >= 190


@pytest.mark.parametrize("start", [0, 7, 20])
def test_a_slow_stretch_does_not_change_the_answer(start: int) -> None:
    """Four loads in which everything takes half as long again, and another model wins."""
    logs = drawn(np.random.default_rng(3), 0.008).log_seconds
    (before,) = intervals(samples_of(logs), 1)
    slow = logs.copy()
    slow[start : start + 4] += np.array([SLOW, SLOW - 0.15])
    (after,) = intervals(samples_of(slow), 1)
    assert (before.outcome, after.outcome, after.loads) == (EQUAL, EQUAL, 20)
    assert after.ratio == pytest.approx(before.ratio, abs=0.005)
    assert after.milliseconds == pytest.approx(6.0, rel=0.01)


def test_two_states_are_judged_apart() -> None:
    """As measured: equal at 6.1 ms, and faster by 13 % at 9.3 ms.  It does not win in each state."""
    samples = drawn(np.random.default_rng(4), 0.008)
    logs = samples.log_seconds
    logs[10:18] += np.array([log(9.3 / 6.1), log(9.3 / 6.1) + log(0.867)])
    assert [len(state) for state in states(samples_of(logs))] == [16, 8]
    fast, slow = intervals(samples_of(logs), 1)
    assert (fast.outcome, slow.outcome) == (EQUAL, FASTER)
    assert slow.reference_milliseconds / fast.reference_milliseconds == pytest.approx(9.3 / 6.1, rel=0.02)
    assert slow.ratio == pytest.approx(0.867, rel=0.01)
    assert outcome_of([fast, slow]) == EQUAL


def test_noise_of_the_original_is_no_state() -> None:
    """Loads in which it happens to be slow would flatter all others, if it alone told the states apart."""
    random = np.random.default_rng(5)
    logs = random.normal(0.0, [0.1, 0.001], (24, 2))
    assert len(states(samples_of(logs))) == 1


def at(ratio: float, low: float, high: float) -> Interval:
    return Interval(ratio, low, high, 12, 1.0, 1.0)


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (at(0.90, 0.88, 0.93), FASTER),
        (at(1.10, 1.04, 1.15), SLOWER),
        (at(1.00, 0.99, 1.02), EQUAL),
        (at(0.995, 0.993, 0.997), EQUAL),
        (at(1.005, 1.003, 1.007), EQUAL),
        (at(1.00, 0.90, 1.02), UNDECIDED),
        (at(0.99, 0.98, 1.06), UNDECIDED),
    ],
)
def test_the_outcome(found: Interval, word: str) -> None:
    """A difference below a per cent is none, however sure it is; an interval of ten per cent hides one."""
    assert found.outcome == word
    assert outcome_of([found]) == word


def test_the_worst_state_decides() -> None:
    """A model must lose in none, and a gain counts if it is one in each."""
    faster, slower, equal, wide = at(0.9, 0.88, 0.93), at(1.1, 1.04, 1.15), at(1, 0.99, 1.02), at(1, 0.9, 1.1)
    assert [outcome_of([faster, one]) for one in (faster, slower, equal, wide)] == [FASTER, SLOWER, EQUAL, UNDECIDED]
    assert outcome_of([slower, wide]) == SLOWER
    assert outcome_of([wide, equal]) == UNDECIDED


def test_a_load_counts_once_and_by_its_median_round() -> None:
    """The third round of one load is an outlier."""
    seconds = np.ones((6, 1, 2, 3))
    seconds[:, :, 1] = 0.5
    seconds[2, :, :, 2] = 40.0, 90.0
    (found,) = intervals(LatencySamples(seconds, np.zeros(6), np.zeros(6)), 1)
    assert (found.ratio, found.low, found.high, found.loads) == (0.5, 0.5, 0.5, 6)


def test_batches_are_joined_and_a_candidate_may_be_left_out_of_some() -> None:
    """A race goes on without the slowest, which keeps the loads that it had; then the machine is slow."""
    first, second = samples_of([(0.0, -0.1, 0.3)] * FEWEST), samples_of([(SLOW, SLOW - 0.1, np.nan)] * FEWEST)
    both = first + second
    assert len(both) == 12
    assert list(both.began) == [*range(6), *range(6)]
    assert [interval(both, candidate).loads for candidate in (1, 2)] == [12, 6]
    assert interval(both, 2, 1).ratio == pytest.approx(np.exp(0.4))
    assert [len(intervals(both, candidate)) for candidate in (1, 2)] == [2, 1]


def test_shapes_are_judged_one_by_one() -> None:
    logs = np.zeros((12, 2, 2))
    logs[:, 0, 1], logs[:, 1, 1] = -0.2, 0.2
    logs[:6, 1] += SLOW
    samples = samples_of(logs)
    assert [len(intervals(samples, 1, shape=shape)) for shape in (0, 1)] == [1, 2]
    assert [outcome_of(intervals(samples, 1, shape=shape)) for shape in (0, 1)] == [FASTER, SLOWER]
    assert not is_precise_enough(samples[np.arange(12) < 5], 1.0)
    assert is_precise_enough(samples, 0.01)
