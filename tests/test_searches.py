"""Rules that search in place of matching a pattern, and patterns whose inner nodes may stay."""

import io

import numpy as np
import onnx
import pytest
from surgeon.patterns.cleanup.constant_folding import constant_folding
from surgeon.patterns.cleanup.duplicates import duplicate_nodes

import surgeon
from surgeon import Graph, Tensor, rule, searches
from surgeon.authoring.rule_proof.prover import prove_rule
from surgeon.display.terminal.terminal_renderer import text_of
from surgeon.errors import RuleError
from tests.models import graph, make, matches, ops, reasons, run

FOUR = "(float[n] x, float[n] p, float[n] q, float[n] r) => (float[n] y)"
REPEATED = "a = Relu(x) b = Relu(x) c = Exp(a) d = Exp(b) y = Add(c, d)"


def test_a_rule_of_ones_own_search():
    """Every Abs of an Abs, found by hand; the replacement and the conditions ask for what the search binds."""

    def abs_of_abs(index, scope):
        """Abs nodes that read another."""
        for node in list(scope.live_nodes()):
            source = scope.producers.get(node.inputs[0]) if node.op == "Abs" else None
            if source is not None and source.op == "Abs":
                bound = {"inner": node.inputs[0], "depth": (2,)}
                yield searches.Found((node,), node.outputs, bound, (source,))

    seen = []

    def look(inner: Tensor, depth: int) -> None:
        seen.append((inner.name, depth))

    @rule(search=searches.Search(abs_of_abs, "no Abs of an Abs"), conditions=[look], target="any")
    def one_abs(g: Graph, inner: Tensor) -> Tensor:
        return inner

    made, report = run(graph("a = Abs(x) b = Abs(a) c = Abs(b) y = Relu(c)"), one_abs, check="both")
    assert ops(made.graph) == ["Abs", "Relu"]
    assert report.outcome == "proved"
    assert seen[0] == ("a", 2)
    (miss,) = surgeon.rewrite(made, one_abs, check="none")[1].misses
    assert miss.reason == "no Abs of an Abs"


def test_a_rule_has_patterns_or_a_search():
    """Never both, never neither."""
    with pytest.raises(RuleError, match="has both patterns and a search"):
        rule(patterns=[lambda g, x: g.relu(x)], search=searches.repeated_nodes)(lambda g, x: x)
    with pytest.raises(RuleError, match="has no pattern"):
        rule()(lambda g, x: x)


def test_explained_where_nothing_is_found():
    """The sentence is the search's own."""
    (miss,) = surgeon.explain(graph("y = Relu(x)"), duplicate_nodes)
    assert (miss.reason, miss.kind) == ("nothing is repeated", "absent")
    assert not surgeon.explain(graph(REPEATED), duplicate_nodes)
    (miss,) = surgeon.explain(graph("a = Relu(x) y = Exp(a)"), duplicate_nodes, node="a")
    assert miss.reason == "nothing is repeated"
    (miss,) = surgeon.explain(graph(REPEATED), duplicate_nodes, target="decomposed")
    assert "writes no op that surgeon can decompose" in miss.reason


def test_found_one_by_one():
    """`find` yields places without rewriting."""
    assert [match.root.label for match in surgeon.find(graph(REPEATED), duplicate_nodes)] == ["b", "d"]


def test_the_manual_says_how_it_searches():
    """In place of patterns."""
    text = text_of(duplicate_nodes)
    assert "found by a search: Nodes of one op with equal attributes on equal inputs" in text
    assert "ort        written site by site (duplicates.py:" in text
    assert "also in place of" not in text


def test_a_search_is_proved_at_its_sites_alone():
    """A rule without a pattern has no instances to make."""
    proof = prove_rule(duplicate_nodes, quick=True)
    assert not proof.entries


def test_left_out_by_name():
    """--skip and --only hold for what a search finds."""
    made, report = run(graph(REPEATED), duplicate_nodes, skip="d", check="sites")
    assert ops(made.graph) == ["Relu", "Exp", "Exp", "Add"]
    assert report.counts == {"duplicate_nodes": 1}


def test_a_search_that_is_wrong_is_rolled_back():
    """Its sites are proved as any others."""

    def all_relus(index, scope):
        """Every Relu but the first, whatever it reads."""
        first, *others = [node for node in scope.live_nodes() if node.op == "Relu"]
        for node in others:
            yield searches.Found((node,), node.outputs, {"first": first.outputs[0]}, (first,))

    @rule(search=searches.Search(all_relus, "one Relu"), target="any")
    def wrong(g: Graph, first: Tensor) -> Tensor:
        return first

    model = graph("a = Relu(x) n = Neg(x) b = Relu(n) y = Add(a, b)")
    with pytest.raises(surgeon.CheckFailed) as caught:
        surgeon.rewrite(model, [wrong])
    assert len(caught.value.report.rolled_back) == 1
    assert caught.value.result == model


def test_a_new_node_that_reads_what_is_handed_on_later():
    """Two rules, the second of which takes out what the first one's node reads: each change is proved."""
    model = graph("r = Reshape(x, s) a = Exp(r) b = Relu(a) y = Neg(b)", constants="int64[2] s = {0, 0}")
    positive = make(lambda g, x: g.relu(g.exp(x)), lambda g, x: g.exp(x), name="positive")
    from surgeon.patterns.cleanup.no_op_shapes import no_op_reshape

    made, report = run(model, [positive, no_op_reshape], check="both")
    assert report.outcome == "proved"
    assert ops(made.graph) == ["Exp", "Neg"]


def test_a_copy_of_what_another_site_hands_on():
    """The first copy's proof still says that it is a copy, though what it copied went as well."""
    from surgeon.patterns.cleanup.no_ops import identity, no_op_arithmetic

    model = graph("a = Mul(x, k) b = Identity(a) y = Relu(b)", constants="float k = {1}")
    made, report = run(model, [identity, no_op_arithmetic], check="sites")
    assert ops(made.graph) == ["Relu"]
    assert [site.outcome for site in report.sites] == ["proved", "proved"]
    assert [site.proof.reason for site in report.sites] == ["", ""]


class TestShared:
    """Inner tensors that may be used elsewhere too."""

    @staticmethod
    def twice(g, x):
        return g.abs(g.shared(g.relu(x)))

    def test_stays_where_it_is_read(self):
        """The match leaves it out; its own input is bound all the same."""
        (match,) = matches(graph("a = Relu(x) b = Abs(a) c = Exp(a) y = Add(b, c)"), self.twice)
        assert [node.op for node in match.nodes] == ["Abs"]
        assert [node.op for node in match.kept] == ["Relu"]
        assert match["x"].name == "x"

    def test_goes_where_nobody_else_reads_it(self):
        (match,) = matches(graph("a = Relu(x) y = Abs(a)"), self.twice)
        assert [node.op for node in match.nodes] == ["Relu", "Abs"]
        assert not match.kept

    def test_every_reader_is_found_at_once(self):
        """Although the search begins at the one node that they share, the rarest of the pattern."""
        model = graph("a = Relu(x) b = Mul(a, p) c = Mul(a, q) d = Mul(a, r) e = Add(b, c) y = Add(e, d)", FOUR)
        found = matches(model, lambda g, x, other: g.mul(g.shared(g.relu(x)), other))
        assert sorted(match["other"].name for match in found) == ["p", "q", "r"]

    def test_what_it_reads_stays_with_it(self):
        """The nodes of the pattern below it are needed for it."""
        (match,) = matches(
            graph("e = Exp(x) a = Relu(e) b = Abs(a) c = Neg(a) y = Add(b, c)"),
            lambda g, x: g.abs(g.shared(g.relu(g.exp(x)))),
        )
        assert [node.op for node in match.kept] == ["Exp", "Relu"]

    def test_other_inner_nodes_may_not_be_read(self):
        """Only what is shared."""
        model = graph("e = Exp(x) a = Relu(e) b = Abs(a) c = Neg(e) y = Add(b, c)")
        assert not matches(model, lambda g, x: g.abs(g.shared(g.relu(g.exp(x)))))
        assert "also read by" in reasons(model, lambda g, x: g.abs(g.shared(g.relu(g.exp(x)))))

    def test_an_input_cannot_be_shared(self):
        with pytest.raises(RuleError, match="shared needs a node"):
            matches(graph("y = Abs(x)"), lambda g, x: g.abs(g.shared(x)))

    def test_a_sum_cannot_be_shared(self):
        with pytest.raises(RuleError, match="Add cannot be shared"):
            matches(graph("y = Abs(x)"), lambda g, x, z: g.abs(g.shared(g.add(x, z))))


def test_limits_of_folding_are_the_rules():
    """A rule of one's own may set others."""

    @rule(search=searches.constant_subgraphs(most=1 << 24, growth=1 << 24), target="any")
    def fold_more(g: Graph, values: list) -> list:
        return [g.literal(value) for value in values]

    model = graph(
        "m = ConstantOfShape(s) y = Add(x, m)", "(float[n, 40000] x) => (float[n, 40000] y)", "int64[1] s = {40000}"
    )
    assert surgeon.rewrite(model, constant_folding)[0] == model
    made, report = run(model, fold_more, check="both")
    assert report.outcome == "proved"
    value = onnx.numpy_helper.to_array(made.graph.node[0].attribute[0].t)
    assert value.shape == (40000,)
    assert not np.any(value)
    assert io.BytesIO(made.SerializeToString()).getbuffer().nbytes > 160000
