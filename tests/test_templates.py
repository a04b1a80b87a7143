"""The quick road gives what the search gives, and nothing more."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surgeon import rewrite
from surgeon.matching import match
from surgeon.testing import parse
from tests import sampling

CONSTANTS = (
    "<float sqrt2 = {1.4142135}, float root = {1.4142135}, float one = {1.0}, float half = {0.5}, float other = {0.4}, "
    "float[1] flat = {0.5}>"
)
ERF = "d{i} = Div({x}, sqrt2) e{i} = Erf(d{i}) a{i} = Add(e{i}, one) "
# One layer each; {i} names it, {x} is what it reads.
LAYERS = {
    "torchscript": ERF + "m{i} = Mul({x}, a{i}) y{i} = Mul(m{i}, half)",
    "dynamo": "d{i} = Div({x}, root) "
    "e{i} = Erf(d{i}) a{i} = Add(one, e{i}) m{i} = Mul(half, a{i}) y{i} = Mul({x}, m{i})",
    "swapped": ERF + "m{i} = Mul(a{i}, {x}) y{i} = Mul(half, m{i})",
    "rank one": ERF + "m{i} = Mul({x}, a{i}) y{i} = Mul(m{i}, flat)",
    "0.4": ERF + "m{i} = Mul({x}, a{i}) y{i} = Mul(m{i}, other)",
    "another input": ERF + "m{i} = Mul(z, a{i}) y{i} = Mul(m{i}, half)",
    "erf read twice": ERF + "m{i} = Mul({x}, a{i}) k{i} = Mul(m{i}, half) y{i} = Add(k{i}, e{i})",
    "no GELU": "y{i} = Erf({x})",
}
GELUS = ("torchscript", "dynamo", "swapped", "rank one")


def stack(kinds):
    """A model of these layers, one on the other."""
    body, x = [], "z"
    for i, kind in enumerate(kinds):
        body.append(LAYERS[kind].format(i=i, x=x))
        x = f"y{i}"
    return parse(f"(float[n, 4] z) => (float[n, 4] {x}) {CONSTANTS} {{ {' '.join(body)} }}")


def outcome(kinds):
    """The bytes and the roots of the sites, with and without the quick road."""
    after, report = rewrite(stack(kinds), "gelu:gelu", check="none")
    return after.SerializeToString(), sorted(site.root for site in report.sites)


@settings(deadline=None, max_examples=sampling.examples(60))
@given(st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=9))
def test_the_quick_road_changes_nothing(kinds):
    """Any mixture of layers: the same sites, the same bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(match, "template_of", lambda *_: None)
        searched = outcome(kinds)
    assert outcome(kinds) == searched
    assert len(searched[1]) == sum(kind in GELUS for kind in kinds) + (kinds[0] == "another input")


def test_equal_layers_need_one_search(monkeypatch):
    """However many there are."""
    searches = []
    run = match._Attempt.run
    monkeypatch.setattr(match._Attempt, "run", lambda self, root: searches.append(root) or run(self, root))

    def searched(layers):
        searches.clear()
        _, report = rewrite(stack(["torchscript"] * layers), "gelu:gelu", check="none")
        assert len(report.sites) == layers
        return len(searches)

    assert searched(12) == searched(24)
