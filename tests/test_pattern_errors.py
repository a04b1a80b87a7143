"""What is wrong with a pattern or a replacement, said in one sentence."""

import numpy as np
import onnx_graphsurgeon as gs
import pytest

import surgeon
from surgeon import Graph, RuleError, Tensor, rule
from surgeon.rules.catalogue import all_rules
from surgeon.rules.tracing.tracer import trace
from surgeon.testing import parse
from tests.models import graph, make, opset, run

MY = opset(17)


ERRORS = {
    "no tensor": (lambda g, x: None, "must return one or more tensors"),
    "a list in a list": (
        lambda g, x: [g.layer(op="Relu", inputs=[x], outputs=["r"])],
        "must return one or more tensors",
    ),
    "returns an input": (lambda g, x: x, "returns an input"),
    "returns an input in a form": (lambda g, x: g.any_of(g.relu(x), x), "returns an input"),
    "branches on a tensor": (lambda g, x: g.relu(x) if x else g.tanh(x), "cannot branch"),
    "no form": (lambda g, x: g.relu(g.any_of()), "at least one alternative"),
    "optional of an input": (lambda g, x: g.relu(g.optional(x)), "optional needs a node"),
    "wrong attribute": (lambda g, x: g.leaky_relu(x, alfa=1.0), "alpha"),
    "too many inputs": (lambda g, x: g.relu(x, x), "Relu"),
    "a foreign tensor": (lambda g, x: g.relu(gs.Variable("z")), "belongs to another graph"),
    "a list of tensors as an input": (lambda g, x: g.relu(g.layer(op="Exp", inputs=[x], outputs=["e"])), r"\[0\]"),
    "unknown helper": (lambda g, x: g.gleu(x), "did you mean"),
}


@pytest.mark.parametrize("title", ERRORS)
def test_pattern_errors(title):
    function, why = ERRORS[title]
    with pytest.raises((RuleError, AttributeError), match=why):
        trace(function)


def test_an_unknown_helper_names_the_nearest_and_is_a_rule_error():
    with pytest.raises(RuleError, match=r"gleu.*did you mean .*gelu"):
        trace(lambda g, x: g.gleu(x))
    with pytest.raises(RuleError, match=r"'qqqqqq'; register"):
        trace(lambda g, x: g.qqqqqq(x))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("g.mull(x, 2.0)", r"No helper named 'mull'"),
        ("g.softmax(x, axs=1)", r"Softmax has no attribute or input 'axs'"),
        ("g.any_of()", r"any_of needs at least one alternative"),
        ("[]", None),
    ],
)
def test_what_is_wrong_in_a_pattern_names_its_rule_and_its_line(tmp_path, text, message):
    path = tmp_path / "wrong_pattern.py"
    path.write_text(
        "from surgeon import rule\n\ndef form(g, x):\n"
        f"    y = g.tanh(x)\n    return {text}\n\n"
        "@rule(patterns=[form], target='any')\ndef mine(g, x):\n    return g.abs(x)\n"
    )
    wanted = rf"^Rule mine \(wrong_pattern.py:5\): {message}"
    if message is None:
        wanted = r"^Rule mine: Pattern form \(wrong_pattern.py:3\) must return one or more tensors"
    with pytest.raises(RuleError, match=wanted):
        surgeon.rewrite(graph("y = Relu(x)"), str(path))


def test_rest_must_be_last():
    def pattern(g: Graph, x: Tensor, *rest: Tensor) -> Tensor:
        return g.op("my::cat", *rest, x)

    with pytest.raises(RuleError, match=r"\*rest must be the last input"):
        trace(pattern)


def test_keyword_only_parameters_are_refused():
    def pattern(g: Graph, *, x: Tensor) -> Tensor:
        return g.relu(x)

    with pytest.raises(RuleError, match="without the bare"):
        trace(pattern)


def test_a_replacement_asks_for_what_the_pattern_binds():
    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.relu(x)

    def wants_more(g: Graph, x: Tensor, w: Tensor) -> Tensor:
        return g.matmul(x, w)

    def returns_two(g: Graph, x: Tensor) -> Tensor:
        return g.neg(x), g.neg(x)

    with pytest.raises(RuleError, match="has a parameter 'w'"):
        run(graph("y = Relu(x)"), make(pattern, wants_more))
    with pytest.raises(RuleError, match="returns 2 tensor"):
        run(graph("y = Relu(x)"), make(pattern, returns_two))


def test_a_replacement_may_ask_for_the_match():
    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.op("my::act", x))

    def named(g: Graph, match: object) -> Tensor:
        return g.op("my::fused", match["x"], root=match.root.name)

    model = graph("[first] a = my.act(x) [one] b = Relu(a) [second] c = my.act(b) [two] y = Relu(c)", header=MY)
    after, _ = run(model, make(pattern, named), check="none")
    assert [node.attribute[0].s for node in after.graph.node] == [b"one", b"two"]


def test_a_condition_that_returns_a_verdict_is_refused():
    """Nobody would hear it: `return x.rank == 2` in place of `require`."""

    def is_matrix(x):
        return x.rank == 2

    made = surgeon.rule(patterns=[lambda g, x: g.relu(g.relu(x))], conditions=[is_matrix])(lambda g, x: g.relu(x))
    with pytest.raises(RuleError, match="Condition is_matrix returns False, but it must call require"):
        surgeon.rewrite(parse("(float[n] x) => (float[n] y) { a = Relu(x) y = Relu(a) }"), made)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (lambda g, x: 5, "returns 5, which is not a tensor. Return the result of a helper"),
        (
            lambda g, x: g.op("*::Relu2", x),
            r"'\*::Relu2' is only for patterns, because it matches many operators",
        ),
    ],
)
def test_a_replacement_that_makes_something_else_is_reported(written, message):
    made = surgeon.rule(patterns=[lambda g, x: g.relu(g.relu(x))], name="made")(written)
    with pytest.raises(RuleError, match=message):
        surgeon.rewrite(parse("(float[n] x) => (float[n] y) { a = Relu(x) y = Relu(a) }"), made)


def test_strings_of_numpy_are_strings():
    """np.array("abc") is the string, in patterns and replacements, whatever numpy calls its dtype."""
    made = surgeon.rule(patterns=[lambda g, x: g.not_(g.equal(x, np.array("abc")))], target="any", name="made")(
        lambda g, x: g.xor(g.equal(np.array("abc"), x), np.array(True))
    )
    model = parse('<ir_version: 9, opset_import: ["" : 19]> g (string[n] x) => (bool[n] y) <string k = {"abc"}>'
                  "{ e = Equal(x, k) y = Not(e) }")  # fmt: skip
    _, report = surgeon.rewrite(model, made)
    assert (len(report.sites), report.outcome) == (1, "proved")


def test_a_forgotten_return_is_reported():
    def forgot(g, x):
        g.relu(x)

    made = surgeon.rule(patterns=[lambda g, x: g.relu(g.relu(x))])(forgot)
    with pytest.raises(RuleError, match="Replacement forgot returns None. Return the new tensor"):
        surgeon.rewrite(parse("(float[n] x) => (float[n] y) { a = Relu(x) y = Relu(a) }"), made)


def forgotten(g: Graph, x: Tensor, factor: float) -> Tensor:
    return g.relu(g.any_of(g.mul(x, factor), x))


def scaled(g: Graph, x: Tensor, factor: float) -> Tensor:
    return g.mul(g.relu(x), factor)


SENSELESS = {
    "a capture that no pattern has": (
        rule(patterns=[lambda g, x: g.relu(x)], target="any", name="bad")(lambda g, x, bias: g.add(x, bias)),
        r"has a parameter 'bias', but pattern <lambda> \(test_pattern_errors.py:\d+\) does not capture it",
    ),
    "a capture of one of several forms": (
        rule(patterns=[forgotten], target="any", name="bad")(scaled),
        r"scaled .* has a parameter 'factor', but pattern forgotten .* does not always capture it\. ",
    ),
    "another number of outputs": (
        rule(patterns=[lambda g, x: g.relu(x)], target="any", name="bad")(lambda g, x: (g.abs(x), g.neg(x))),
        r"returns 2 tensors, but the pattern returns 1\. Return one tensor for each output\. A .*outputs=2\)$",
    ),
    "any tensor in what is written": (
        rule(patterns=[lambda g, x: g.relu(x)], target="any", name="bad")(lambda g, x: g.add(x, g.any_tensor())),
        r"uses g.any_tensor\(\), which is only for patterns",
    ),
    "any number in what is written": (
        rule(patterns=[lambda g, x: g.relu(x)], target="any", name="bad")(lambda g, x: g.mul(x, g.any_number())),
        r"uses g.any_number\(\), which is only for patterns",
    ),
    "what it looks for": (
        rule(patterns=[lambda g, x: g.relu(x)], target="any", name="bad")(lambda g, x: g.mul(g.relu(g.neg(x)), 2.0)),
        "matches the rule's own pattern, so the rule would never stop",
    ),
}


@pytest.mark.parametrize("case", SENSELESS)
def test_a_rule_without_sense_is_reported_before_a_model_is_opened(case):
    made, message = SENSELESS[case]
    with pytest.raises(RuleError, match=f"^Rule bad .*{message}"):
        surgeon.rewrite("no_such_file.onnx", made, output="out.onnx")


def test_what_a_form_writes_is_recognised_unless_it_looks_at_the_model():
    known = {built_in.name: built_in for _, _, built_in in all_rules()}
    recognised = {
        name: [form.kind for form in made.forms if form.function in made.recognised(form)]
        for name, made in known.items()
    }
    assert recognised["gelu"] == ["ort", "onnx"]  # plain ops of a target
    assert recognised["hard_swish"] == ["onnx"]
    assert recognised["gemm"] == []  # it looks at shapes
    assert recognised["identity"] == []  # for any target
    assert recognised["leaky_relu"] == ["onnx"]  # and not in parts
