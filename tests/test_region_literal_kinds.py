"""Literals of a region never turn usual inputs into kinds for which the rule differs."""

import pytest

import surgeon
from surgeon import Graph, Tensor
from surgeon.testing import parse

KINDS = ("non_finite", "extreme", "large", "wide")
NUMBERS = {20_000.5: "extreme", 200.7: "large", 4321.5: "large", 45.3: "wide", 5.3: "wide", -33.1: "wide"}


def wrong_at(number, kinds):
    """A rule that is wrong where x is this number, and says that it differs for inputs of kinds."""

    def bounded(g: Graph, x: Tensor) -> Tensor:
        return g.min(x, number)

    def wrong(g: Graph, x: Tensor) -> Tensor:
        """What: nothing.  Numerics: 0 in the place of the number."""
        return g.where(g.equal(x, number), 0.0, g.where(g.less(x, number), x, number))

    return surgeon.rule(patterns=[bounded], target="any", differs=dict.fromkeys(kinds, "on purpose"))(wrong)


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_of_the_region_of_a_kind_that_is_apart_are_left_out(number):
    model = parse(f"(float[n, 64] x) => (float[n, 64] y) <float most = {{{number}}}> {{ y = Min(x, most) }}")
    place = KINDS.index(NUMBERS[number])
    for kinds, outcome in ((KINDS[:place], "failed"), (KINDS[: place + 1], "proved")):
        _, report = surgeon.rewrite(model, [wrong_at(number, kinds)], keep_going=True)
        assert report.outcome == outcome, report.proofs
