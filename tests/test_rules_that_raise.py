"""An exception of a rule's own code: a built-in rule declines the match, any other ends the run."""

import pytest
from surgeon.patterns.activations.gelu import gelu

import surgeon
from surgeon import Graph, RewriteError, RuleError, Tensor, require
from surgeon.authoring.rule_proof.instance_rewrite import InstanceRewrite
from tests.models import graph, make, ops
from tests.test_report import text_of

TWO = graph("a = Neg(x) b = Relu(a) d = Neg(b) e = Abs(d) y = Sin(e)")
CAUSES = {
    ZeroDivisionError: lambda: 1 / 0,
    IndexError: lambda: [][1],
    RuleError: lambda: (_ for _ in ()).throw(RuleError("the attribute does not exist")),
}


def built_in(pattern, replacement, **settings):
    """A rule that counts as one of surgeon's."""
    rule = make(pattern, replacement, **settings)
    rule.module = "surgeon.patterns.activations.made"
    return rule


def raising(cause, made=built_in, when=lambda x: x.name == "x"):
    """A rule that raises at the first of two matches."""

    def replacement(g: Graph, x: Tensor) -> Tensor:
        if when(x):
            cause()
        return g.cos(x)

    return made(lambda g, x: g.any_of(g.relu(g.neg(x)), g.abs(g.neg(x))), replacement, name="raising")


@pytest.mark.parametrize("kind", CAUSES, ids=lambda kind: kind.__name__)
def test_a_built_in_rule_declines_the_match(kind):
    """It fires at the next match, and the next rule runs."""
    after = built_in(lambda g, x: g.sin(x), lambda g, x: g.tanh(x), name="after")
    made, report = surgeon.rewrite(TWO, [raising(CAUSES[kind]), after], check="none")
    assert ops(made.graph) == ["Neg", "Relu", "Cos", "Tanh"]
    (miss,) = [miss for miss in report.misses if miss.kind == "error"]
    assert (miss.rule, miss.node, miss.near) == ("raising", "b", True)
    assert miss.reason.startswith(f"the rule raised {kind.__name__}: ")
    assert "(test_rules_that_raise.py:" in miss.reason


def test_the_report_says_so_without_being_asked():
    _, report = surgeon.rewrite(TWO, raising(CAUSES[IndexError]), check="none")
    (line,) = [line for line in text_of(report).splitlines() if "raised" in line]
    assert line.startswith("warning  raising at b: the rule raised IndexError: list index out of range (test_rules_")
    assert line.endswith("), so these nodes stay")
    assert [miss["kind"] for miss in report.to_dict()["misses"]].count("error") == 1


def test_explain_names_the_exception():
    (miss, *_) = surgeon.explain(TWO, raising(CAUSES[ZeroDivisionError]))
    assert miss.node == "b"
    assert "the rule raised ZeroDivisionError: division by zero" in miss.reason


def test_a_match_of_inserted_nodes_is_reported_too():
    before = built_in(lambda g, x: g.sin(x), lambda g, x: g.relu(g.neg(x)), name="before")
    model = graph("a = Sin(x) y = Abs(a)")
    _, report = surgeon.rewrite(model, [before, raising(CAUSES[IndexError])], check="none")
    assert [miss.kind for miss in report.misses if miss.rule == "raising"] == ["error"]


@pytest.mark.parametrize("command", [surgeon.explain, lambda *given: surgeon.rewrite(*given, check="none")])
@pytest.mark.parametrize("kind", CAUSES, ids=lambda kind: kind.__name__)
def test_any_other_rule_ends_the_run(kind, command):
    """Its author has to see the mistake, and a build has to fail."""
    with pytest.raises(RuleError if kind is RuleError else RewriteError, match="Rule raising"):
        command(TWO, raising(CAUSES[kind], made=make))


def test_a_lack_of_memory_ends_the_run():
    def fill() -> None:
        raise MemoryError

    with pytest.raises(RewriteError, match="MemoryError"):
        surgeon.rewrite(TWO, raising(fill), check="none")


def test_a_partial_match_is_no_defect_of_the_rule():
    """Explaining tries conditions on nodes that do not fit, and those may raise."""

    def replacement(g: Graph, x: Tensor, n: float) -> Tensor:
        require(1 / (n - 4) > 0, "positive")
        return g.cos(x)

    rule = built_in(lambda g, x, n: g.add(g.relu(g.mul(x, n)), 7.0), replacement, name="partial")
    model = graph("a = Mul(x, four) b = Relu(a) y = Add(b, six)", constants="float four = {4}, float six = {6}")
    _, report = surgeon.rewrite(model, rule, check="none")
    assert not [miss for miss in report.misses if miss.kind == "error"]
    assert not [miss for miss in surgeon.explain(model, rule) if miss.kind == "error"]


def test_the_proof_of_a_rule_does_not_pass_over_an_exception():
    """`surgeon rules NAME --prove` looks for exactly these."""
    with pytest.raises(RewriteError, match="Rule raising raised an error at node 'b'"):
        InstanceRewrite(TWO, raising(CAUSES[IndexError]), "ort")


def test_built_in_rules_are_those_of_surgeon():
    assert gelu.is_built_in
    assert not make(lambda g, x: g.sin(x), lambda g, x: g.cos(x)).is_built_in


def test_integers_are_integers():
    """A parameter that is a list of integers binds no other numbers, although a node may read such a constant."""
    seen = []

    def replacement(g: Graph, x: Tensor, axes: list[int]) -> Tensor:
        seen.append(axes)
        return g.cos(x)

    def pattern(g: Graph, x: Tensor, axes: list[int]) -> Tensor:
        return g.squeeze(g.unsqueeze(x, axes), axes)

    def any_list(g: Graph, x: Tensor, axes: list) -> Tensor:
        return g.squeeze(g.unsqueeze(x, axes), axes)

    rule = make(pattern, replacement, name="axes")
    for dtype, count in (("int64", 1), ("float", 0)):
        model = graph("a = Unsqueeze(x, k) y = Squeeze(a, k)", constants=f"{dtype}[1] k = {{0}}")
        assert surgeon.rewrite(model, rule, check="none")[1].count("axes") == count
    (miss,) = surgeon.explain(model, rule)
    assert "expected constant integers for 'axes'" in miss.reason
    loose = make(any_list, replacement, name="loose")
    assert surgeon.rewrite(model, loose, check="none")[1].count("loose") == 1
    assert [axes for axes in seen if isinstance(axes, list)] == [[0], [0.0]]  # others are traced
