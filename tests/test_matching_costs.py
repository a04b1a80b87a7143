"""Costs of matching: explanations and distant roots cost nothing unless they are needed."""

import pytest
from surgeon.patterns.activations.gelu import exact, gelu
from surgeon.patterns.norms.layer_norm import scaled_and_shifted

from surgeon import Graph, Tensor, rewrite, rule
from surgeon.ir.constants import Constants
from surgeon.pipeline.acceptance import near_misses
from surgeon.rules.matching.anchors import RootFinder, anchors
from surgeon.rules.matching.compiler import compile_pattern
from surgeon.rules.matching.match_state import MatchCost
from surgeon.rules.matching.matcher import find
from surgeon.rules.tracing.tracer import trace
from tests.benchmarks.works import Stack, generate
from tests.models import graph, index_of, matches
from tests.test_explain import CONSTANTS, ERF, GELU

NORM = (
    "{i}s = Add({x}, {x0}) {i}m = ReduceMean<axes = [-1]>({i}s) {i}c = Sub({i}s, {i}m) {i}q = Pow({i}c, two) "
    "{i}v = ReduceMean<axes = [-1]>({i}q) {i}e = Add({i}v, epsilon) {i}r = Sqrt({i}e) {i}n = Div({i}c, {i}r) "
    "{i}w = Mul({i}n, scale) {y} = Add({i}w, shift) "
)
WEIGHTS = (
    "float two = {2}, float epsilon = {0.00001}, float[4] scale = {1, 2, 3, 4}, float[4] shift = {1, 2, 3, 4}"
)


def counted(monkeypatch, body, rules):
    """How often a rewrite walks a pattern to say why it does not fit."""
    calls = 0
    original = near_misses.furthest_failure

    def deepest(*arguments):
        nonlocal calls
        calls += 1
        return original(*arguments)

    monkeypatch.setattr(near_misses, "furthest_failure", deepest)
    rewrite(graph(body, constants=CONSTANTS), rules, check="none")
    return calls


def test_a_run_in_which_the_rule_fired_explains_nothing(monkeypatch):
    assert counted(monkeypatch, GELU, gelu) == 0
    assert counted(monkeypatch, f"{ERF} m = Mul(x, a) y = Mul(m, other)", gelu) > 0


def six(g: Graph, x: Tensor) -> Tensor:
    return g.neg(g.abs(g.exp(g.sqrt(g.sin(g.cos(x))))))


def test_roots_that_look_alike_and_are_far_from_a_match_are_explained_but_a_few_times(monkeypatch):
    """What is near is told however late it comes, where it looks like none of them."""
    sixfold = rule(patterns=[six])(lambda g, x: g.relu(x))
    lone = "".join(f"{op.lower()}{place} = {op}(x) " for place in range(20) for op in ("Exp", "Sqrt", "Sin", "Cos"))
    far = "".join(f"c{place} = Ceil(x) a{place} = Abs(c{place}) n{place} = Neg(a{place}) " for place in range(12))
    body = lone + far + "t = Tan(x) s = Sin(t) r = Sqrt(s) e = Exp(r) a = Abs(e) y = Neg(a)"
    assert counted(monkeypatch, body, sixfold) <= 4
    _, report = rewrite(graph(body), sixfold, check="none")
    assert [miss.node for miss in report.misses if miss.near] == ["y"]


def stack(layers):
    """Residuals and layer normalisations in a row: nothing but sums and products from end to end."""
    names = ["x", *(f"h{place}" for place in range(1, layers)), "y"]
    body = "".join(
        NORM.format(i=f"l{place}", x=names[place], x0=names[max(0, place - 1)], y=names[place + 1])
        for place in range(layers)
    )
    return graph(body, constants=WEIGHTS)


def test_what_a_layer_costs_does_not_grow_with_the_layers_above_it():
    """Of sums and products alone a way leads up through all of them; the pattern has an end."""
    costs = []
    for layers in (6, 12, 24):
        index = index_of(stack(layers))
        (pattern,) = trace(scaled_and_shifted)
        assert len(list(find(index, compile_pattern(pattern), index.main))) == layers
        costs.append(MatchCost.of(index).total)
    assert costs[2] - costs[1] <= 2 * (costs[1] - costs[0])


def test_a_root_is_looked_for_no_further_up_than_the_pattern_goes():
    index = index_of(stack(8))
    (pattern,) = trace(scaled_and_shifted)
    compiled = compile_pattern(pattern)
    first = anchors(compiled, index.main)[0]
    labels = {node.label for node in RootFinder(index, index.main, compiled).roots(first)}
    assert "h1" in labels
    assert not labels & {f"h{place}" for place in range(3, 8)}


@pytest.mark.parametrize("count", [1, 2, 4])
def test_constants_on_the_way_up_are_no_end_of_it(count):
    """A product of the pattern is of as many nodes as the model has factors in it."""
    last, body = "a", "d = Div(x, sqrt2) e = Erf(d) a = Add(e, one) "
    for place in range(count):
        body += f"k{place} = Mul({last}, four) q{place} = Mul(k{place}, quarter) "
        last = f"q{place}"
    more = f"{CONSTANTS}, float four = {{4}}, float quarter = {{0.25}}"
    found = matches(graph(f"{body} m = Mul(x, {last}) y = Mul(m, half)", constants=more), exact)
    assert [match.outputs for match in found] == [("y",)]


def test_an_input_of_another_op_is_seen_before_anything_is_tried():
    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.tanh(x))

    index = index_of(graph("a = Tanh(x) b = Abs(a) c = Relu(b) y = Relu(c)"))
    (traced,) = trace(pattern)
    assert not list(find(index, compile_pattern(traced), index.main))
    assert MatchCost.of(index).attempts == 0


def test_all_rules_read_no_weight_of_a_linear_layer(monkeypatch, tmp_path):
    """What a model weighs is in these: a rule that looks into each of them takes as long as all others together."""
    read = []
    array = Constants.array

    def noting(self, scope, name):
        read.append(name)
        return array(self, scope, name)

    monkeypatch.setattr(Constants, "array", noting)
    generate(Stack(6), tmp_path / "m.onnx")
    _, report = rewrite(tmp_path / "m.onnx", "ort", output=tmp_path / "out.onnx", check="none")
    assert report.count("gelu") == 6
    assert not [name for name in read if name.endswith("weight")]
