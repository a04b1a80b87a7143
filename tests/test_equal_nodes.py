"""Sites that equal nodes prove: those that look at nodes find equal, by what they say and read, and no others."""

import pytest

import surgeon
from surgeon import Graph, Tensor, rule
from surgeon.display.content.rewrite import proof_words
from surgeon.rules.matching.match_state import VariadicBinding
from surgeon.rules.matching.pattern import Found, Search
from surgeon.testing import parse

BY_NODES = "a comparison of nodes"
HEAD = "(float[n, 4] x) => (float[n, 4] y)"


def second_for_first(op):
    """A rule that lets readers of the second node of an op read the first, whatever the two are."""

    def find(index, scope):
        """Two nodes, whatever they are."""
        nodes = [node for node in scope.live_nodes() if node.op.endswith(op)]
        if len(nodes) == 2:
            yield Found((nodes[1],), nodes[1].outputs, {"first": VariadicBinding(nodes[0].outputs)}, (nodes[0],))

    @rule(search=Search(find, "there are no two"), target="any")
    def hand_on(g: Graph, first: list[Tensor]) -> list[Tensor]:
        """Hand on the first."""
        return first

    return hand_on


def proofs(body, *rules, constants="", head=HEAD):
    made = parse(f"{head} <{constants}> {{ {body} }}") if isinstance(body, str) else body
    _, report = surgeon.rewrite(made, list(rules), keep_going=True)
    return report


def test_equal_nodes_are_proved_without_a_run():
    report = proofs("a = Relu(x) c = Exp(a) b = Relu(x) d = Exp(b) y = Add(c, d)", "duplicate_nodes")
    found = [(site.outcome, site.proof.oracle, site.proof.runs) for site in report.sites]
    assert found == [("proved", BY_NODES, 0)] * 2
    assert list(proof_words(report)) == ["2 proofs by a comparison of nodes"]


@pytest.mark.parametrize(
    ("op", "body", "constants"),
    [
        ("Elu", "a = Elu<alpha = 0.5>(x) b = Elu<alpha = 0.51>(x) y = Add(a, b)", ""),
        ("Mul", "a = Mul(x, k) b = Mul(x, l) y = Sub(a, b)", "float k = {3}, float l = {3.0001}"),
        ("Sub", "h = Exp(x) a = Sub(x, h) b = Sub(h, x) y = Mul(a, b)", ""),
    ],
)
def test_unlike_nodes_fail(op, body, constants):
    report = proofs(body, second_for_first(op), constants=constants)
    assert not report.sites
    assert [site.outcome for site in report.rolled_back] == ["failed"]


def test_nodes_that_draw_are_equal_to_none():
    body = "a = RandomNormalLike(x) b = RandomNormalLike(x) y = Sub(a, b)"
    report = proofs(body, second_for_first("RandomNormalLike"))
    assert [site.outcome for site in (*report.sites, *report.rolled_back)] != ["proved"]


def test_calls_and_ops_that_nobody_knows_are_run():
    """Of a function what it does is looked at, not its name alone."""
    made = parse(
        """<ir_version: 9, opset_import: ["" : 17, "my" : 1]> agraph (float[n] x) => (float[n] y)
        { a = my.Twice(x) b = my.Twice(x) y = Add(a, b) }
        <domain: "my", opset_import: ["" : 17]> Twice (v) => (w) { w = Add(v, v) }"""
    )
    (site,) = proofs(made, second_for_first("Twice")).sites
    assert site.outcome == "proved"
    assert site.proof.runs


def test_what_rests_on_a_wrong_site_goes_with_it():
    """Two of a kind, once another site has said of two that they are one, which they are not."""
    body = "a = Elu<alpha = 0.5>(x) b = Elu<alpha = 0.7>(x) c = Exp(a) d = Exp(b) y = Sub(c, d)"
    report = proofs(body, second_for_first("Elu"), "duplicate_nodes")
    assert not report.sites
    first, _ = report.rolled_back
    assert (first.rules, first.outcome) == (("hand_on",), "failed")


def test_what_rests_on_a_site_that_is_not_proved_is_not_either():
    body = "a = RandomNormalLike(x) b = RandomNormalLike(x) c = Exp(a) d = Exp(b) y = Add(c, d)"
    report = proofs(body, second_for_first("RandomNormalLike"), "duplicate_nodes")
    drawn, after = report.sites
    assert (drawn.outcome, after.outcome) == ("unproved", "unproved")
    assert "assumes equal tensors" in after.proof.reason
