"""Races of variants and the search over forms, on simulated samples: the best form is found, and a slow one is not."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest

from surgeon.pipeline.measuring.race import is_bounded, over_shapes, race, search
from surgeon.rules.choices import FormChoice, RuleChoices
from surgeon.runtime.timing.samples import LatencySamples
from tests.form_tables import FOLDER, FormTable

LOADS = 6


@dataclass(frozen=True)
class Form:
    """A variant with a true latency by shape, as a ratio to the original's."""

    key: str
    nodes: int
    ratios: tuple[float, ...]


class Machine:
    """Measures with noise; an original of one millisecond at each shape."""

    def __init__(self, noise=0.01, seed=0):
        self.noise, self.random, self.seen, self.batches = noise, np.random.default_rng(seed), {}, 0

    def __call__(self, forms):
        self.batches += 1
        self.seen |= {form.key: form for form in forms}
        true = np.array([[1.0] * len(forms[0].ratios), *(form.ratios for form in forms)]).T  # [shape, variant]
        logs = np.log(true) + self.random.normal(0, self.noise, (LOADS, *true.shape))
        return LatencySamples(1e-3 * np.exp(logs)[..., None], np.arange(LOADS) * 1.0, np.ones(LOADS))


def never():
    return False


def test_the_fastest_wins():
    forms = [Form("a", 10, (0.95,)), Form("b", 12, (0.90,)), Form("c", 11, (1.05,))]
    found = race(forms, Machine(), never)
    assert found.ranking[0].key == "b"
    assert forms[2] not in found.ranking


def test_of_equal_ones_the_smallest_wins():
    forms = [Form("a", 10, (0.9,)), Form("b", 8, (0.9,)), Form("c", 9, (0.9,))]
    assert race(forms, Machine(0.005), never).ranking[0].key == "b"


def test_a_smaller_one_that_is_slower_does_not_win():
    forms = [Form("a", 10, (0.90,)), Form("b", 8, (0.93,))]
    assert race(forms, Machine(0.005), never).ranking[0].key == "a"


def test_one_that_is_slower_than_the_original_at_a_shape_is_dropped():
    """It gains more over both shapes, but nobody may lose at a named shape."""
    forms = [Form("a", 10, (0.97, 0.97)), Form("b", 10, (0.80, 1.05))]
    assert [form.key for form in race(forms, Machine(), never).ranking] == ["a"]


def test_the_first_is_never_dropped():
    """Whether it is written is decided by a new measurement."""
    forms = [Form("a", 10, (1.3,)), Form("b", 10, (1.4,))]
    assert [form.key for form in race(forms, Machine(), never).ranking] == ["a"]


def test_a_race_ends_when_only_one_is_left_and_when_all_are_equal():
    clear, equal = Machine(0.002), Machine(0.002)
    race([Form("a", 10, (0.9,)), Form("b", 10, (0.99,))], clear, never)
    race([Form("a", 10, (0.9,)), Form("b", 10, (0.9,))], equal, never)
    assert (clear.batches, equal.batches) == (1, 2)


def test_noise_ends_a_race_after_all_loads_and_a_budget_before():
    noisy, short = Machine(0.1), Machine(0.1)
    race([Form("a", 10, (0.9,)), Form("b", 10, (0.9,))], noisy, never)
    race([Form("a", 10, (0.9,)), Form("b", 10, (0.9,))], short, lambda: True)
    assert (noisy.batches, short.batches) == (4, 1)


def test_one_that_was_dropped_has_no_later_samples():
    found = race([Form("a", 10, (0.9,)), Form("b", 10, (0.9,)), Form("c", 10, (1.2,))], Machine(0.004), never)
    assert np.isfinite(found.samples.log_seconds[:, 0, 3]).sum() == LOADS < len(found.samples)


def table(effects, interactions=()):
    """All decisions over independent choices; a ratio is a product of the forms' factors."""
    choices = [FormChoice(name, {form: frozenset([f"{name}: {form}"]) for form in forms})
               for name, forms in effects.items()]
    made = {}
    for forms in product(*(choice.forms for choice in choices)):
        decision = dict(zip(effects, forms, strict=True))
        ratio = float(np.prod([effects[name][form] for name, form in decision.items()]))
        ratio *= float(np.prod([factor for pair, factor in interactions if pair <= decision.items()]))
        made[forms] = Form("/".join(forms), 100 - sum(effects[n][f] < 1 for n, f in decision.items()), (ratio,))
    space = RuleChoices(choices, frozenset())

    def neighbours(form):
        decision = dict(zip(effects, form.key.split("/"), strict=True))
        fired = frozenset(f"{name}: {value}" for name, value in decision.items())
        return [made[tuple(one.values())] for one in space.neighbours(decision, fired)]

    return made[tuple(space.defaults.values())], neighbours, min(form.ratios[0] for form in made.values())


TABLES = {  # the forms of a model as exhaustive measurements gave them, the default first
    "the default is the best": table({"residual": {"sum": 0.9, "norm": 0.97, "add": 1.0},
                                      "attention": {"fused": 0.95, "nodes": 1.0}}),
    "packing gains": table({"residual": {"sum": 0.95, "norm": 1.02, "add": 1.0},
                            "projections": {"three": 1.0, "one": 0.96}, "attention": {"fused": 0.97, "nodes": 1.0}}),
    "two changes gain": table({"residual": {"norm": 1.05, "sum": 0.97, "add": 1.0},
                               "projections": {"three": 1.0, "one": 0.93}, "linear": {"fused": 0.99, "nodes": 1.0}}),
    "a family loses": table({"attention": {"fused": 1.08, "nodes": 1.0}, "activations": {"fused": 0.9, "nodes": 1.0}}),
    "packing pays only with sums": table(
        {"residual": {"norm": 1.0, "sum": 0.98, "add": 0.99}, "projections": {"three": 1.0, "one": 1.01}},
        [({("residual", "sum"), ("projections", "one")}, 0.92)]),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("seed", range(5))
def test_the_search_comes_within_a_per_cent_of_the_best(name, seed):
    start, neighbours, best = TABLES[name]
    machine = Machine(0.006, seed)
    races = search(start, neighbours, machine, never)
    assert races[-1].ranking[0].ratios[0] <= best * 1.012
    assert len(machine.seen) <= 13


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
@pytest.mark.parametrize("first_load", range(0, 24, 6))
def test_the_search_replays_measured_tables(path, first_load):
    """All forms of exported models, measured with one thread: `python -m tests.form_tables`."""
    held = FormTable(path, first_load)
    races = search(held.start(), held.neighbours, held, never, seen=[0])
    best = min(map(held.ratio, held.rows))
    assert held.ratio(races[-1].ranking[0]) <= best * 1.015
    assert len(held.seen) <= 13


def test_tables_are_there():
    assert len([*FOLDER.glob("*.json")]) >= 5


def test_equal_graphs_are_not_measured():
    same = Form("a", 9, (0.9,))
    machine = Machine()
    races = search(Form("a", 10, (0.9,)), lambda _: [same, Form("original", 11, (1.0,))], machine, never, ["original"])
    assert machine.seen.keys() == {"a"}
    assert len(races) == 1


def test_a_budget_that_is_over_leaves_no_race():
    assert search(Form("a", 10, (0.9,)), lambda _: [], Machine(), lambda: True) == []


@pytest.mark.parametrize(
    ("ratios", "noise", "bounded"),
    [
        ((0.95, 0.90), 0.01, True),
        ((0.95, 1.03), 0.01, False),  # at one of two shapes
        ((1.0, 1.0), 0.003, True),
        ((0.98, 0.98), 0.2, False),  # noise hides a loss
    ],
)
def test_a_result_is_bounded_at_each_shape(ratios, noise, bounded):
    machine = Machine(noise, 3)
    samples = machine([Form("a", 1, ratios)])
    for _ in range(3):
        samples += machine([Form("a", 1, ratios)])
    assert is_bounded(samples, 1, 0.01) == bounded


def test_the_mean_over_shapes_is_geometric():
    samples = Machine(0.0)([Form("a", 1, (0.5, 2.0, 0.8))])
    (ratio,) = {round(float(one), 12) for one in over_shapes(samples).seconds[:, 0, 1, 0] * 1e3}
    assert ratio == pytest.approx(0.8 ** (1 / 3))
