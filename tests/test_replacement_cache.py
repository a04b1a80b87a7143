"""The match cache and the replacement cache return the same as a search."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surgeon import find, rewrite, rule
from surgeon.pipeline.acceptance import replacement_cache
from surgeon.pipeline.acceptance.replacement_cache import ReplacementCache
from surgeon.rules.matching import matcher
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


def outcome(model, rules="gelu:gelu"):
    """The bytes, the roots of the sites, and what is told of near misses."""
    after, report = rewrite(model, rules, check="none")
    return after.SerializeToString(), sorted(site.root for site in report.sites), report.misses


def searched(model, rules="gelu:gelu"):
    """The same without the quick roads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matcher, "MatchCache", lambda *_: None)
        patch.setattr(ReplacementCache, "known", lambda self, alike, found: None)
        return outcome(model, rules)


@settings(deadline=None, max_examples=sampling.examples(60))
@given(st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=9))
def test_the_quick_road_changes_nothing(kinds):
    """Any mixture of layers: the same sites, the same bytes."""
    found = outcome(stack(kinds))
    assert found == searched(stack(kinds))
    assert len(found[1]) == sum(kind in GELUS for kind in kinds) + (kinds[0] == "another input")


CENTRED = "m{i} = ReduceMean<axes = [{axis}]>({x}) c{i} = Sub({x}, m{i}) "
VARIANCE = "s{i} = Pow(c{i}, two) v{i} = ReduceMean<axes = [{axis}]>(s{i}) "
ROOT = "e{i} = Add(v{i}, {epsilon}) r{i} = Sqrt(e{i}) "
SCALED = "n{i} = Div(c{i}, r{i}) g{i} = Mul(n{i}, scale) y{i} = Add(g{i}, shift)"
# As LAYERS, of normalisations; {axis} is the last or, as most rules refuse, the one before it.
NORMS = {
    "torchscript": CENTRED + VARIANCE + ROOT + SCALED,
    "squared by itself": CENTRED + "s{i} = Mul(c{i}, c{i}) v{i} = ReduceMean<axes = [{axis}]>(s{i}) " + ROOT + SCALED,
    "centred twice": CENTRED
    + "k{i} = Sub({x}, m{i}) s{i} = Pow(k{i}, two) v{i} = ReduceMean<axes = [{axis}]>(s{i}) "
    + ROOT
    + SCALED,
    "swapped": CENTRED + VARIANCE + ROOT + "n{i} = Div(c{i}, r{i}) g{i} = Mul(scale, n{i}) y{i} = Add(shift, g{i})",
    "shift of one number": CENTRED
    + VARIANCE
    + ROOT
    + "n{i} = Div(c{i}, r{i}) g{i} = Mul(n{i}, scale) y{i} = Add(g{i}, two)",
    "of another": "m{i} = ReduceMean<axes = [{axis}]>(z) c{i} = Sub({x}, m{i}) " + VARIANCE + ROOT + SCALED,
    "read inside": CENTRED + VARIANCE + ROOT + SCALED.replace("y{i}", "k{i}") + " y{i} = Add(k{i}, r{i})",
    "residual": "t{i} = Add({x}, z) "
    + (CENTRED + VARIANCE + ROOT).replace("{x}", "t{i}")
    + SCALED,
}


def norms(kinds):
    """A model of normalisations, one on the other: of a kind, over an axis, with an epsilon."""
    body, x = [], "z"
    for i, (kind, axis, epsilon) in enumerate(kinds):
        body.append(NORMS[kind].format(i=i, x=x, axis=axis, epsilon=epsilon))
        x = f"y{i}"
    held = (
        "<float two = {2.0}, float small = {0.00001}, float large = {0.1}, "
        "float[4] scale = {1.0, 2.0, 3.0, 4.0}, float[4] shift = {0.0, 1.0, 2.0, 3.0}>"
    )
    return parse(f"(float[3, n, 4] z) => (float[3, n, 4] {x}) {held} {{ {' '.join(body)} }}")


KINDS = st.tuples(st.sampled_from(sorted(NORMS)), st.sampled_from((-1, -1, 1)), st.sampled_from(("small", "large")))


@settings(deadline=None, max_examples=sampling.examples(40))
@given(st.lists(KINDS, min_size=1, max_size=6))
def test_a_search_is_not_repeated_where_it_would_be_reported_the_same(kinds):
    """Any mixture: the same sites, the same bytes, and the same is told of what was refused."""
    rules = "layer_norm,instance_norm,skip_layer_norm"
    assert outcome(norms(kinds), rules) == searched(norms(kinds), rules)


@pytest.mark.parametrize(("rules", "model"), [("gelu:gelu", stack), ("layer_norm", norms)])
def test_equal_layers_need_one_search(monkeypatch, rules, model):
    """However many there are."""
    searches = []
    search = matcher._Attempt._search
    monkeypatch.setattr(
        matcher._Attempt, "_search", lambda self, *given: searches.append(given) or search(self, *given)
    )

    def count(layers):
        searches.clear()
        kind = "torchscript" if model is stack else ("torchscript", -1, "small")
        _, report = rewrite(model([kind] * layers), rules, check="none")
        assert len(report.sites) == layers
        return len(searches)

    assert count(12) == count(24)


def test_a_replacement_is_built_once_for_equal_answers(monkeypatch):
    """Of equal numbers, dtypes and shapes; another epsilon is another fragment."""
    built = []
    build = replacement_cache.build_replacement
    monkeypatch.setattr(replacement_cache, "build_replacement", lambda *given: built.append(given) or build(*given))
    kinds = [("torchscript", -1, epsilon) for epsilon in ("small", "large", "small", "small", "large")]
    after, report = rewrite(norms(kinds), "layer_norm", check="none")
    assert len(report.sites) == 5
    assert len(built) == 2
    given = [next(item.f for item in node.attribute if item.name == "epsilon") for node in after.graph.node]
    assert given == pytest.approx([1e-5, 0.1, 1e-5, 1e-5, 0.1])


def sum_of(g: Any, x: Any, y: Any) -> Any:
    """A sum with a Neg before it, or without."""
    return g.abs(g.add(g.any_of(g.neg(x), x), y))


@rule(patterns=[sum_of])
def subtracted(g: Any, x: Any, y: Any) -> Any:
    """Right where the Neg goes, wrong where it stays and is x."""
    return g.abs(g.sub(y, x))


def alternating(layers):
    """Sums with a Neg, which somebody else reads in every second layer from the third on."""
    body, x = [], "z"
    for i in range(layers):
        body.append(f"c{i} = Cos({x}) b{i} = Exp(c{i}) n{i} = Neg(b{i}) a{i} = Add(n{i}, z) y{i} = Abs(a{i})")
        x = f"y{i}"
        if i and i % 2 == 0:
            body.append(f"s{i} = Sin(n{i}) t{i} = Add(y{i}, s{i})")
            x = f"t{i}"
    return parse(f"(float[n, 4] z) => (float[n, 4] {x}) {{ {' '.join(body)} }}")


def test_sites_that_end_otherwise_are_not_alike():
    """Where somebody else reads a Neg it stays, and the search that took it in ends with less: not the same site."""
    by_template = {}
    for found in find(alternating(7), subtracted):
        by_template.setdefault(found.template, set()).add(tuple(node.op for node in found.nodes))
    by_template.pop(None)  # the first of each kind, which a search found
    assert sorted(map(sorted, by_template.values())) == [[("Add", "Abs")], [("Neg", "Add", "Abs")]]


def test_a_proof_serves_no_site_that_ends_otherwise():
    """What is right with the Neg is wrong without, and rolled back wherever it is."""
    _, report = rewrite(alternating(9), subtracted, keep_going=True)
    assert sorted(site.root for site in report.rolled_back) == ["y2", "y4", "y6", "y8"]
    assert all(len(site.steps[0].removed) == 3 for site in report.sites)
    assert len(report.sites) == 5
