"""Rows that do not mix: how they are found, what a case holds in them, and when a row counts as different."""

import numpy as np
import pytest

import surgeon
from surgeon import Graph, Tensor, rule
from surgeon.proof.strategies.rows import differing_rows, independent_rows, row_counts
from surgeon.runtime.inputs.float_fills import SPECIAL, special_pairs
from surgeon.runtime.inputs.input_generator import InputGenerator
from surgeon.runtime.inputs.role_fills import Blank
from surgeon.testing import parse


def rows_of(text: str, compute, **feeds):
    specs = {spec.name: spec for spec in InputGenerator(parse(text), names=False).wants}
    return independent_rows(feeds, compute(feeds), specs, compute)


X = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
ONE = "(float[a, b, c] x) => (float[a, b, c] y) { y = Relu(x) }"
TWO = "(float[a, b, c] x, float[c] z) => (float[a, b, c] y) { y = Add(x, z) }"


@pytest.mark.parametrize(
    ("compute", "number"),
    [
        (lambda x: np.maximum(x, 0), 60),
        (lambda x: x - x.mean(axis=-1, keepdims=True), 12),
        (lambda x: x - x.mean(axis=1, keepdims=True), 3),
        (lambda x: x - x.mean(), 1),
        (lambda x: np.fmax(x, np.fmax.reduce(x)), 1),  # NaN is dropped, numbers are not
        (lambda x: x[::-1], 1),
        (lambda x: x.reshape(12, 5) * 2, 60),
        (lambda x: x.sum(axis=-1), 12),
    ],
)
def test_rows_are_as_many_as_stay_when_another_changes(compute, number):
    found, names = rows_of(ONE, lambda feeds: {"y": compute(feeds["x"])}, x=X)
    assert found == number
    assert names == ({"x"} if number > 1 else set())


def test_an_input_that_all_rows_share_has_no_rows():
    z = np.ones(5, np.float32)
    found, names = rows_of(TWO, lambda feeds: {"y": feeds["x"] + feeds["z"]}, x=X, z=z)
    assert (found, names) == (60, {"x"})


def test_inputs_that_are_rejected_have_no_rows():
    def compute(feeds):
        return None if np.isnan(feeds["x"]).any() else {"y": feeds["x"]}

    assert rows_of(ONE, compute, x=X)[0] == 1


def test_numbers_of_rows():
    assert row_counts((2, 1, 3)) == {2: 1, 6: 3}
    assert row_counts(()) == {}


def test_a_row_differs_by_more_than_its_tolerance():
    one = np.array([[1.0, 2.0], [np.nan, np.inf], [0.0, 1.0], [1.0, 1.0]], np.float32)
    other = np.array([[1.0, 2.00001], [np.nan, np.inf], [-0.0, 1.0], [1.0, np.nan]], np.float32)
    assert differing_rows(one, other, 4, rtol=None, has_signs=False).tolist() == [False, False, False, True]
    assert differing_rows(one, other, 4, rtol=None, has_signs=True).tolist() == [False, False, True, True]
    assert differing_rows(one, other, 4, rtol=1e-9, has_signs=False)[0]
    assert differing_rows(one, other[:2], 4, rtol=None, has_signs=False).all()


def test_two_inputs_hold_every_pair_of_special_numbers():
    arrays = [special_pairs(place).make(Blank(None, (49,), {}, None)) for place in range(7)]
    for at, one in enumerate(arrays):
        for other in arrays[:at]:
            assert len({(str(a), str(b)) for a, b in zip(one, other, strict=True)}) == len(SPECIAL) ** 2


def test_a_fault_in_one_kind_of_rows_is_named_with_its_strategy():
    """The rule is right for all rows but those that hold infinity: their largest number less itself is NaN."""

    @rule(patterns=[lambda g, x: g.clip(g.softmax(x, axis=-1), 0.0, 1.0)])
    def by_hand(g: Graph, x: Tensor) -> Tensor:
        powers = g.exp(g.min(x, 80.0))
        return g.div(powers, g.reduce_sum(powers, axes=[-1], keepdims=True))

    text = """(float[n, 4] x) => (float[n, 4] y) <float l = {0}, float h = {1}>
        { s = Softmax<axis = -1>(x) y = Clip(s, l, h) }"""
    _, report = surgeon.rewrite(parse(text), by_hand, keep_going=True)
    (site,) = report.rolled_back
    assert "(by special rows, " in site.reason
