"""The result of a rule that the model has already, and that a run wrote, is no near miss."""

import pytest

import surgeon
from surgeon import ExpectationUnmet, Graph, Tensor, rule
from surgeon.display.terminal.terminal_renderer import text_of
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.testing import parse

THERE = {
    "gelu": (
        20,
        "gelu",
        'a = Gelu(x) b = Gelu(a) y = Gelu<approximate = "tanh">(b)',
        "gelu: 2 nodes are ai.onnx::Gelu already, which ONNX Runtime runs",
    ),
    "gelu_tanh": (
        20,
        "gelu:gelu_tanh",
        'y = Gelu<approximate = "tanh">(x)',
        "gelu_tanh: 1 node is ai.onnx::Gelu already, which ONNX Runtime runs",
    ),
    "hard_swish": (14, "hard_swish", "a = HardSwish(x) y = HardSwish(a)", "hard_swish: 2 nodes are ai.onnx::HardSwish"),
    "mish": (18, "mish", "y = Mish(x)", "mish: 1 node is ai.onnx::Mish already"),
    "layer_norm": (
        17,
        "layer_norm",
        "y = LayerNormalization(x, w, b)",
        "layer_norm: 1 node is ai.onnx::LayerNormalization already",
    ),
    "several outputs": (
        17,
        "skip_layer_norm",
        "a, m, i, s = com.microsoft.SkipLayerNormalization(x, x, w, b) "
        "y = com.microsoft.SkipLayerNormalization(a, s, w, b)",
        "skip_layer_norm: 2 nodes are com.microsoft::SkipLayerNormalization already",
    ),
    "of ONNX Runtime": (17, "gelu", "y = com.microsoft.Gelu(x)", "gelu: 1 node is com.microsoft::Gelu already"),
}


def model(opset: int, body: str) -> "surgeon.Source":
    """A model of one input, with two weights of four numbers."""
    return parse(
        f'<ir_version: 9, opset_import: ["" : {opset}, "com.microsoft" : 1]> g (float[2, 4] x) => (float[2, 4] y) '
        f"<float[4] w = {{1, 2, 3, 4}}, float[4] b = {{4, 3, 2, 1}}> {{ {body} }}"
    )


def dry(opset: int, body: str, rules: object, **settings: object) -> RewriteReport:
    """The report of a run that writes nothing."""
    return surgeon.rewrite(model(opset, body), rules, dry_run=True, **settings)[1]


@pytest.mark.parametrize("case", THERE)
def test_a_rule_whose_result_is_there_says_so(case: str) -> None:
    """Newer exporters write such an op themselves; `explain` says the same."""
    opset, rules, body, line = THERE[case]
    lines = text_of(dry(opset, body, rules)).splitlines()
    assert lines[1] == "UNCHANGED  nothing left to do"
    assert any(text.startswith(f"already  {line.replace(' already', '', 1)}") for text in lines)
    (miss, *_) = surgeon.explain(model(opset, body), rules)
    assert f"{miss.rule}: {miss.reason}".startswith(line)


@pytest.mark.parametrize(
    ("opset", "rules", "body", "end"),
    [
        (20, "gelu", "y = Gelu(x)", "ONNX Runtime runs; --target contrib writes com.microsoft::Gelu"),
        (24, "silu", "y = Swish(x)", "ONNX Runtime runs; --target contrib writes com.microsoft::QuickGelu"),
        (17, "gelu", "y = com.microsoft.Gelu(x)", "ONNX Runtime runs"),
        (14, "hard_swish", "y = HardSwish(x)", "ONNX Runtime runs"),
    ],
)
def test_the_op_that_another_target_gets_is_named(opset: int, rules: str, body: str, end: str) -> None:
    """The option that is named does it."""
    (miss, *_) = surgeon.explain(model(opset, body), rules)
    assert miss.reason.endswith(end)
    if "contrib" in end:
        made, report = surgeon.rewrite(model(opset, body), rules, target="contrib")
        assert report.outcome == "proved"
        assert f"{made.graph.node[0].domain}::{made.graph.node[0].op_type}" == end.split()[-1]


def test_an_expectation_that_is_not_met_says_so() -> None:
    """Also where the rule still fires at some places, and where it is one of a group."""
    half = "d = Div(x, w) a = Gelu(d) s = Sigmoid(a) q = Mul(a, s) y = Gelu(q)"
    with pytest.raises(ExpectationUnmet, match=r"applied 0 times, but 2 were expected \(2 nodes are ai.onnx::Gelu"):
        dry(20, half, "ort", expect={"gelu": 2})
    with pytest.raises(ExpectationUnmet, match=r"swish was applied 0 times, but 1 was expected; nothing"):
        dry(20, "y = Relu(x)", "swish", expect={"swish": 1})


def test_what_the_model_has_for_another_target_is_not_there_yet() -> None:
    """The target runs it not, or the rule is for placeholders, or it looks for the op itself."""
    assert dry(17, "y = com.microsoft.Gelu(x)", "gelu", target="decomposed").counts["gelu"] == 1

    @rule(patterns=[lambda g, x: g.op("*::placed", x)])
    def placed(g: Graph, x: Tensor) -> Tensor:
        return g.relu(x)

    @rule(patterns=[lambda g, x: g.neg(g.relu(g.relu(x)))])
    def once(g: Graph, x: Tensor) -> Tensor:
        return g.relu(x)

    for one in (placed, once):
        assert not [line for line in text_of(dry(17, "y = Relu(x)", one)).splitlines() if " already, " in line]


def test_no_near_miss_is_of_what_the_run_wrote() -> None:
    """Neither as a node that matches, nor as the one in the way; of the file's own nodes they are told."""

    @rule(patterns=[lambda g, x: g.exp(g.neg(x))])
    def first(g: Graph, x: Tensor) -> Tensor:
        return g.reciprocal(g.exp(x))

    @rule(patterns=[lambda g, x: g.tanh(g.sqrt(g.reciprocal(g.exp(x))))])
    def above(g: Graph, x: Tensor) -> Tensor:
        return g.relu(x)

    @rule(patterns=[lambda g, x: g.abs(g.sqrt(g.exp(g.neg(x))))])
    def below(g: Graph, x: Tensor) -> Tensor:
        return g.relu(x)

    body = "n = Neg(x) e = Exp(n) s = Sqrt(e) y = Abs(s)"
    for rules, text in (([above], False), ([first, above], False), ([first, below], False), ([below], None)):
        report = dry(17, body, rules, check="none")
        if text is None:
            assert report.counts == {"below": 1}
        else:
            assert not [miss for miss in report.misses if miss.of_written]
    kept = dry(17, "m = Neg(x) e = Exp(x) s = Sqrt(e) a = Abs(s) y = Add(a, m)", [below], check="none")
    assert [miss.near for miss in kept.misses] == [True]
