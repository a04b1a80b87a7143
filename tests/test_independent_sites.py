"""Places that share a tensor are sites of their own: each is proved, stands and falls by itself."""

import onnx
import pytest
from surgeon.patterns.cleanup.duplicates import duplicate_nodes
from surgeon.patterns.cleanup.no_ops import identity

import surgeon
from surgeon import Graph, Tensor, rule
from tests.models import graph

LAYERS = 6


def rows(layer: str) -> str:
    """The same nodes in a row; in `layer` {x} is what comes into it, {y} what it makes, and {i} its number."""
    text = [layer.format(i=i, x=f"h{i}" if i else "x", y=f"h{i + 1}") for i in range(LAYERS)]
    return f"{' '.join(text)} y = Tanh(h{LAYERS})"


def model(layer: str, first: str = "") -> onnx.ModelProto:
    """Such rows behind other nodes."""
    return graph(f"{first} {rows(layer)}", "(float[n] x, float[n] t) => (float[n] y)")


@rule(patterns=[lambda g, x, t: g.max(g.exp(x), t)], target="any")
def by_min(g: Graph, x: Tensor, t: Tensor) -> Tensor:
    """−min(−eˣ, −t), the second Neg written anew at each place."""
    return g.neg(g.min(g.neg(g.exp(x)), g.neg(t)))


@rule(patterns=[lambda g, x: g.relu(g.abs(x))], target="any")
def no_relu(g: Graph, x: Tensor) -> Tensor:
    """A ReLU of what is never negative, with another node in its place."""
    return g.abs(x)


@rule(patterns=[lambda g, x: g.ceil(x)], target="any")
def no_ceil(g: Graph, x: Tensor) -> Tensor:
    """Wrong: a number is not rounded up any more."""
    return x


@rule(patterns=[lambda g, x, t: g.neg(g.max(x, t))], target="any")
def turned(g: Graph, x: Tensor, t: Tensor) -> Tensor:
    """min(−x, −t)."""
    return g.min(g.neg(x), g.neg(t))


def sites(report: surgeon.Report, name: str) -> list[surgeon.Site]:
    """The sites that stand in which a rule fired."""
    return [site for site in report.sites if name in site.rules]


def test_what_a_rule_writes_in_every_layer_is_there_once_and_each_layer_proved():
    """The layers read the first one's node; the proofs of the others have a copy of it, and so equal ones are one."""
    made, report = surgeon.rewrite(model("e{i} = Exp({x}) {y} = Max(e{i}, t)"), [by_min, duplicate_nodes], check="both")
    assert [node.op_type for node in made.graph.node].count("Neg") == 2 * LAYERS + 1
    found = sites(report, "by_min")
    assert [site.fired["by_min"] for site in found] == [1] * LAYERS
    assert {site.outcome for site in report.sites} == {"proved"}
    assert len(report.proofs) <= 2


@pytest.mark.parametrize("order", [1, -1])
def test_layers_that_read_a_tensor_in_the_place_of_another_are_proved_apart(order):
    """That the two are equal is proved once, where readers were given the other."""
    first = "e = Exp(t) a = Identity(e)"
    made, report = surgeon.rewrite(model("m{i} = Max({x}, a) {y} = Neg(m{i})", first), [identity, turned][::order])
    assert [site.fired["turned"] for site in sites(report, "turned")] == [1] * LAYERS
    assert {site.outcome for site in report.sites} == {"proved"}
    assert "Identity" not in [node.op_type for node in made.graph.node]


def test_where_two_tensors_are_not_equal_what_read_the_other_is_proved_without():
    """The site that says so fails and is taken back; the layers stand, proved anew."""
    first = "e = Exp(t) a = Ceil(e)"
    wrong = model("m{i} = Max({x}, a) {y} = Neg(m{i})", first)
    made, report = surgeon.rewrite(wrong, [no_ceil, turned], keep_going=True)
    assert [site.rule for site in report.rolled_back] == ["no_ceil"]
    assert [site.outcome for site in sites(report, "turned")] == ["proved"] * LAYERS
    assert "Ceil" in [node.op_type for node in made.graph.node]
    surgeon.rewrite(wrong, turned, check="model")


def test_where_two_tensors_are_not_proved_equal_only_what_rests_on_it_is_unproved():
    """The reason names the place."""

    @rule(patterns=[lambda g, x: g.op("my::Same", x)], target="any")
    def no_same(g: Graph, x: Tensor) -> Tensor:
        """A custom op that nothing here can run."""
        return x

    body = "b{i} = Abs({x}) {y} = Relu(b{i}) m{i} = Max({y}, a) z{i} = Neg(m{i})"
    sums = f"z = Sum({', '.join(f'z{i}' for i in range(LAYERS))})"
    head = "(float[n] x, float[n] t) => (float[n] y, float[n] z)"
    source = graph(f"e = Exp(t) a = my.Same(e) {rows(body)} {sums}", head)
    _, report = surgeon.rewrite(source, [no_same, turned, no_relu])
    assert {site.outcome for site in sites(report, "no_relu")} == {"proved"}
    doubted = sites(report, "turned")
    assert [site.outcome for site in doubted] == ["unproved"] * LAYERS
    assert {site.reason for site in doubted} == {"it assumes equal tensors at a, which are not proved equal"}
