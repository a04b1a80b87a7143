"""Rules that meet: chained into one region, to a fixed point, undoing each other, without end."""

import pytest
from surgeon.patterns.activations.bias_gelu import bias_gelu
from surgeon.patterns.activations.gelu import gelu

from surgeon import RewriteError, RuleError, require
from surgeon.ir.verify_rewrite import new_violations
from tests.models import graph, make, ops, opset, run
from tests.test_splice import tanh_to_sin, transposes


def test_chained_rules_are_one_region_with_the_net_change():
    constants = "float sqrt2 = {1.4142135}, float one = {1.0}, float half = {0.5}, float[4] b = {1, 2, 3, 4}"
    body = "s = Add(x, b) d = Div(s, sqrt2) e = Erf(d) a = Add(e, one) m = Mul(s, a) y = Mul(m, half)"
    after, report = run(graph(body, constants=constants), [gelu, bias_gelu])
    [site] = report.sites
    assert site.rules == ("gelu", "bias_gelu")
    assert [node.op for node in site.replaced] == ["Div", "Erf", "Add", "Mul", "Mul", "Add"]
    assert [node.op for node in site.added] == ["com.microsoft::BiasGelu"]
    [node] = after.graph.node
    origin = next(item.value for item in node.metadata_props if item.key == "surgeon.from")
    assert set(origin.split(", ")) == {"s", "d", "e", "a", "m", "y"}
    assert [tensor.name for tensor in after.graph.initializer] == ["b"]


def test_rules_that_undo_each_other_are_named():
    back = make(lambda g, x: g.sin(x), lambda g, x: g.tanh(x), name="sin_to_tanh")
    after, report = run(graph("y = Tanh(x)"), [tanh_to_sin, back], check="none")
    assert [node.op_type for node in after.graph.node] == ["Tanh"], "the last rule has the last word"
    reported = [(miss.rule, miss.reason) for miss in report.misses if "would undo it" in miss.reason]
    assert reported == [("tanh_to_sin", "sin_to_tanh undid this rewrite before and would undo it again")]


def test_three_rules_in_a_circle_come_to_an_end():
    """Each writes what the next looks for, behind a node that has another name each time."""

    def turn(old, new):
        return make(
            lambda g, x: getattr(g, old)(g.neg(x)), lambda g, x: getattr(g, new)(g.neg(x)), name=f"{old}_to_{new}"
        )

    rules = [turn("tanh", "sin"), turn("sin", "cos"), turn("cos", "tanh")]
    after, report = run(graph("n = Neg(x) y = Tanh(n)"), rules, check="none")
    assert len(after.graph.node) == 2
    assert sum("would undo it" in miss.reason for miss in report.misses) == 1


def test_a_rule_that_writes_what_it_looks_for_is_named():
    again = make(lambda g, x: g.relu(x), lambda g, x: g.relu(x), name="relu_again")
    with pytest.raises(RuleError, match="relu_again .* matches the rule's own pattern"):
        run(graph("y = Relu(x)"), again, check="none")
    again = make(lambda g, x: g.relu(x), lambda g, x: g.relu(x), name="relu_again", conditions=[lambda x: None])
    with pytest.raises(RewriteError, match="relu_again"):
        run(graph("y = Relu(x)"), again, check="none")
    grows = make(lambda g, x: g.relu(x), lambda g, x: g.relu(g.relu(x)), name="relu_grows", conditions=[lambda x: None])
    with pytest.raises(RewriteError, match="relu_grows"):
        run(graph("y = Relu(x)"), grows, check="none")


def test_a_shared_constant_that_went_is_made_anew():
    first = make(lambda g, x: g.op("my::a", x), lambda g, x: g.pow(x, 3.0), name="first")
    second = make(lambda g, x: g.pow(x, 3.0), lambda g, x: g.op("my::b", x), name="second")
    third = make(lambda g, x: g.op("my::c", x), lambda g, x: g.op("my::a", x), name="third")
    model = graph("p = my.a(x) y = my.c(p)", header=opset(17))
    after, _ = run(model, [first, second, third], check="none")
    assert ops(after.graph) == ["b", "b"]
    stop = make(
        lambda g, x: g.pow(x, 3.0),
        lambda g, x: g.op("my::b", x),
        name="second",
        conditions=[lambda x: require(x.name == "x", "only the first")],
    )
    after, _ = run(model, [first, stop, third], check="none")
    assert not new_violations(model, after)
    [power] = [node for node in after.graph.node if node.op_type == "Pow"]
    assert power.input[1] in [tensor.name for tensor in after.graph.initializer]


def test_a_chain_of_transposes_becomes_one():
    body = " ".join(f"t{k + 1} = Transpose<perm = [1, 0]>(t{k})" for k in range(16))
    after, report = run(graph(f"{body} y = Relu(t16)", "(float[n, 4] t0) => (float[n, 4] y)"), transposes)
    assert ops(after.graph) == ["Relu"]
    assert {node.op for site in report.sites for node in site.replaced} == {"Transpose"}
    body = (
        "a = Transpose<perm = [1, 2, 0]>(x) b = Transpose<perm = [1, 2, 0]>(a) c = Transpose<perm = [0, 2, 1]>(b) "
        "y = Transpose<perm = [0, 2, 1]>(c)"
    )
    after, report = run(graph(body, "(float[2, 3, 4] x) => (float[4, 2, 3] y)"), transposes)
    assert ops(after.graph) in (["Transpose"], ["Transpose", "Identity"])
    assert list(after.graph.node[0].attribute[0].ints) == [2, 0, 1]
    assert report.proved
