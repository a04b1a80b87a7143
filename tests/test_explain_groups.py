"""Several rules are explained as they run together: one may need what another writes, or come too late."""

import re
from pathlib import Path

import onnx
import pytest

import surgeon
from surgeon.diagnostics.explanation import MAX_DETAILED_RULES, Explanation, Explanations, explanations
from surgeon.display.terminal.terminal_renderer import text_of
from surgeon.rules.mismatches.mismatch import Mismatch
from tests.command_line import run
from tests.models import graph, opset

HEAD = "(float[n, 4] x) => (float[n, 4] y)"
CONSTANTS = "float k = {0.044715}, float r = {0.7978845608}, float one = {1}, float half = {0.5}"
MODEL = graph(
    "s = Add(x, bias) q = Mul(s, s) c = Mul(q, s) i = Mul(c, k) j = Add(s, i) u = Mul(j, r) t = Tanh(u) a = Add(t, one)"
    " m = Mul(s, a) y = Mul(m, half)",
    HEAD,
    f"{CONSTANTS}, float[4] bias = {{1, 2, 3, 4}}",
    opset(17),
)
FIRST, SECOND = "gelu_tanh", "bias_fast_gelu"  # the second looks for what the first writes


def test_a_rule_fires_at_what_another_writes() -> None:
    assert str(explanations(MODEL, f"{FIRST},{SECOND}")).splitlines() == [
        "model in memory  gelu_tanh and bias_fast_gelu match (details: -v)",
        "fires    gelu_tanh 1 · bias_fast_gelu 1",
    ]


def test_alone_it_has_nothing_to_fire_at() -> None:
    (alone,) = explanations(MODEL, SECOND)
    assert (alone.fires, alone.misses[0].reason) == ([], "the model has no com.microsoft::FastGelu")


def test_how_often_a_rule_fires_is_reported_as_a_rewrite_counts_it() -> None:
    """Of what hangs together a rule may do several, at one site; the other report says how often."""
    turns = "<perm = [1, 2, 3, 0]>"
    model = graph(f"a = Transpose{turns}(x) b = Transpose{turns}(a) y = Transpose{turns}(b)",
                  "(float[1, 2, 3, 4] x) => (float[4, 1, 2, 3] y)", "", opset(17))
    reported = explanations(model, "consecutive_transposes")
    assert surgeon.rewrite(model, "consecutive_transposes")[1].count("consecutive_transposes") == 2
    assert (reported[0].times, len(reported[0].fires), reported[0].to_dict()["times"]) == (2, 1, 2)
    assert "fires    2 times at 1 site (" in str(reported)


def test_what_a_rule_does_behind_a_last_one_counts_too() -> None:
    """As a rewrite counts it: the last one makes what the first looks for."""

    def behind(g: surgeon.Graph, x: surgeon.Tensor) -> surgeon.Tensor:
        return g.relu(g.abs(x))

    def made(g: surgeon.Graph, x: surgeon.Tensor) -> surgeon.Tensor:
        return g.tanh(x)

    first = surgeon.rule(patterns=[behind], target="any", name="first")(lambda g, x: g.abs(x))
    late = surgeon.rule(patterns=[made], target="any", name="late", last=True)(lambda g, x: g.abs(x))
    model = graph("t = Tanh(x)  y = Relu(t)")
    _, report = surgeon.rewrite(model, [first, late], check="none")
    reported = explanations(model, [first, late])
    assert [one.times for one in reported] == [report.count("first"), report.count("late")] == [1, 1]
    assert [one.misses for one in reported] == [[], []]
    assert [one.times for one in explanations(model, [first, late], node="t")] == [1, 1]


@pytest.mark.parametrize("node", ["q", "t", "m", "y"])
def test_nodes_are_followed_to_what_stands_for_them(node: str) -> None:
    reported = explanations(MODEL, f"{FIRST},{SECOND}", node=node)
    assert [(one.fires, one.taken_by) for one in reported] == [([("", "y")], (SECOND,)), ([("", "y")], (FIRST,))]
    assert str(reported).splitlines() == [
        f"model in memory  gelu_tanh and bias_fast_gelu match at {node} (details: -v)",
        "fires    gelu_tanh, bias_fast_gelu",
    ]


def test_a_node_that_stays_is_explained_where_it_is() -> None:
    """The Add of the bias goes with the second rule alone."""
    first, second = explanations(MODEL, f"{FIRST},{SECOND}", node="s")
    assert (first.fires, first.taken_by, second.fires) == ([], (SECOND,), [("", "y")])
    (alone,) = explanations(MODEL, FIRST, node="s")
    assert (alone.fires, alone.taken_by) == ([], ())
    assert alone.misses[0].reason.startswith("expected ")


def test_a_rule_that_comes_too_late_names_the_first() -> None:
    reported = explanations(MODEL, f"{FIRST},mish", node="t")
    late = reported[-1]
    assert (late.fires, late.misses, late.taken_by) == ([], [], (FIRST,))
    assert late.to_dict()["taken_by"] == [FIRST]
    assert str(reported).splitlines() == [
        "model in memory  gelu_tanh matches; mish does not match at t (details: -v)",
        "fires    gelu_tanh",
    ]


def test_an_op_that_is_there_no_more_is_reported_with_who_took_it() -> None:
    *_, late = explanations(MODEL, f"{FIRST},mish")
    reason = "the model has no Tanh left; gelu_tanh replaced 1 with com.microsoft::FastGelu"
    assert (late.fires, late.misses[0].reason) == ([], reason)


def test_the_command_line_reports_the_same(tmp_path: Path) -> None:
    onnx.save(MODEL, tmp_path / "model.onnx")
    shown = run("explain", tmp_path / "model.onnx", "-r", f"{FIRST},{SECOND}").stdout
    assert shown.rstrip() == str(explanations(tmp_path / "model.onnx", f"{FIRST},{SECOND}"))


MANY = "cleanup"  # a group of more rules than are told one by one
NEAR = graph(
    "s = Add(x, bias) q = Mul(s, s) c = Mul(q, s) i = Mul(c, k) j = Add(s, i) u = Mul(j, r) v = Identity(u)"
    " t = Tanh(v) a = Add(t, one) m = Mul(s, a) y = Mul(m, half)",
    HEAD,
    f"{CONSTANTS.replace('0.044715', '0.05')}, float[4] bias = {{1, 2, 3, 4}}",
    opset(17),
)


def test_of_a_group_the_nearest_are_reported_and_the_others_are_counted() -> None:
    reported = explanations(NEAR, f"{MANY},{FIRST},{SECOND}")
    assert len(reported) > MAX_DETAILED_RULES
    first, fires, *nearest, rest = str(reported).splitlines()
    assert first == f"model in memory  1 of {len(reported)} rules matches (details: -v)"
    assert fires == "fires    identity 1"
    assert nearest[0].startswith("nearest  gelu_tanh at y: expected the constant 0.044715")
    assert len(nearest) <= 6
    far, some = re.fullmatch(r"others   (\d+) rules without a near miss, (\d+) with one", rest).groups()
    assert 1 + int(far) + int(some) == len(reported)


def test_of_a_group_at_a_node_those_that_took_it_come_first() -> None:
    reported = explanations(MODEL, f"{MANY},{FIRST},{SECOND}", node="t")
    first, second, *rest = str(reported).splitlines()
    assert first == f"model in memory  2 of {len(reported)} rules match at t (details: -v)"
    assert second == "fires    gelu_tanh, bias_fast_gelu"
    assert not any("0 of " in line or line.startswith("others") for line in rest)


def test_each_rule_of_a_group_is_reported_by_verbose(tmp_path: Path) -> None:
    onnx.save(NEAR, tmp_path / "model.onnx")
    asked = f"{MANY},{FIRST},mish"
    shown = run("explain", tmp_path / "model.onnx", "-r", asked, "--verbose").stdout
    near, far = shown.split("other rules without a near miss\n")
    distant, summary = far.split("\n\n")
    assert "gelu_tanh does not fire; nearest misses" in near
    assert "  no_op_cast: the model has no Cast" in distant
    names = re.findall(r"^(\w+) (?:fires|does not fire)", near, re.MULTILINE)
    assert len(names) + len(distant.splitlines()) == len(explanations(NEAR, asked))
    assert summary.replace("rules matches", "rules matches (details: -v)") == str(explanations(NEAR, asked)).replace(
        "model in memory", "model.onnx"
    ) + "\n"


def test_what_a_search_found_and_a_rule_refused_counts_in_whole() -> None:
    """It has no nodes that are lacking, so that none are counted."""
    many = [Explanation(f"rule{at}") for at in range(MAX_DETAILED_RULES)]
    refused = Mismatch("found", "", "y", "it is too large", "here.py:1", matched=3)
    *_, near, rest = str(Explanations([*many, Explanation("found", misses=[refused])])).splitlines()
    assert near.startswith("nearest  found at y: it is too large")
    assert rest == f"others   {MAX_DETAILED_RULES} rules without a near miss, 1 with one"


def test_a_rule_without_a_reason_is_named_without_a_colon() -> None:
    many = Explanations([Explanation(f"rule{at}") for at in range(MAX_DETAILED_RULES + 1)])
    shown = text_of(many, verbose=True)
    assert "rule0" in shown
    assert "rule0:" not in shown


HEADS = "(float[b, 4, s, 8] q, float[b, 4, t, 8] k, float[b, 4, t, 8] v, float[b, 1, r, t] m) => (float[b, 4, s, 8] y)"
SCORES = graph(
    "h = Transpose<perm = [0, 1, 3, 2]>(k) a = MatMul(q, h) z = Mul(a, scale) x = Add(z, m) p = Softmax<axis = -1>(x)"
    " y = MatMul(p, v)",
    HEADS,
    "float scale = {0.25}",
    opset(17),
)


def test_what_the_last_rules_took_is_reported_as_it_was_before() -> None:
    """fused_matmul takes what attention leaves: why that left it stands."""
    refused = "the mask has r rows, but the queries have s"
    reported = {one.rule: one for one in explanations(SCORES, "attention,fused_matmul")}
    assert reported["attention"].misses[0].reason.startswith(refused)
    assert reported["fused_matmul"].fires
    _, report = surgeon.rewrite(SCORES, "attention,fused_matmul", check="none")
    assert report.counts["fused_matmul"]
    assert [miss.reason.startswith(refused) for miss in report.misses if miss.rule == "attention"] == [True]
