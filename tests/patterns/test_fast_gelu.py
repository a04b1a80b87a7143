"""fast_gelu: what it fires at, where it does not fire, and that nobody gets it unasked."""

import pytest
from surgeon.patterns.activations.fast_gelu import fast_gelu

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

EXACT = """(float[n, 4] x) => (float[n, 4] y) <float two = {1.4142135}, float one = {1.0}, float half = {0.5}>
    { d = Div(x, two) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half) }"""
ONE_NODE = "(float[n, 4] x) => (float[n, 4] y) { y = com.microsoft.Gelu(x) }"
STANDARD = '<ir_version: 9, opset_import: ["" : 20]> agraph (float[n, 4] x) => (float[n, 4] y) { y = Gelu(x) }'

FIRES = [
    Case(fast_gelu, "decomposed", parse(EXACT)),
    Case(fast_gelu, "one node of ONNX Runtime", parse(ONE_NODE)),
    Case(fast_gelu, "one standard node, to one of ONNX Runtime", parse(STANDARD)),
    Case(fast_gelu, "one standard node, to another", parse(STANDARD), target="onnx"),
]
NEGATIVES = [
    Case(
        fast_gelu,
        "it is the approximation already",
        parse(STANDARD.replace("Gelu(x)", 'Gelu<approximate = "tanh">(x)')),
        why="found Gelu at 'y'",
    ),
    Case(fast_gelu, "a double", parse(EXACT.replace("float", "double")), why="expected the constant"),
    Case(
        fast_gelu,
        "a scalar",
        parse(ONE_NODE.replace("[n, 4]", "")),
        why="at least one axis",
    ),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires_within_its_tolerance(case):
    report = check_fires(case)
    assert 1e-5 < report.sites[0].proof.worst.rewritten.max_abs < 5e-4


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_only_where_it_is_named():
    """A group or a file with other rules in it runs without it, unless approximate rules are asked for."""
    from surgeon.rules.catalogue import resolve

    assert [rule.name for rule in resolve("fast_gelu", approximate=False)["fast_gelu"]] == ["fast_gelu"]
    assert resolve(fast_gelu, approximate=False)


def test_a_file_of_several_rules_leaves_it_out(tmp_path):
    file = tmp_path / "mixed.py"
    file.write_text(
        "from surgeon import Graph, Tensor, rule\n"
        "@rule(patterns=[lambda g, x: g.relu(g.relu(x))])\n"
        "def exact(g: Graph, x: Tensor) -> Tensor:\n"
        "    return g.relu(x)\n"
        "@rule(patterns=[lambda g, x: g.softplus(x)], approximate=0.7)\n"
        "def coarse(g: Graph, x: Tensor) -> Tensor:\n"
        "    return g.relu(x)\n"
    )
    model = parse("(float[n] x) => (float[n] y) { a = Softplus(x) b = Relu(a) y = Relu(b) }")
    assert surgeon.rewrite(model, str(file))[1].counts == {"exact": 1}
    assert surgeon.rewrite(model, str(file), approximate=True)[1].counts == {"exact": 2, "coarse": 1}
    assert surgeon.rewrite(model, f"{file}:coarse")[1].counts == {"coarse": 1}
    only = tmp_path / "only.py"
    only.write_text(file.read_text().replace("@rule(patterns=[lambda g, x: g.relu(g.relu(x))])\n", ""))
    with pytest.raises(surgeon.RuleError, match="All rules of .* are approximate. Choose one"):
        surgeon.rewrite(model, str(only))


@pytest.mark.parametrize("check", ["model", "both"])
def test_the_whole_model_differs_on_purpose(check):
    """That is no fault: it is told, and nothing is taken back; a wrong rule beside it still is."""
    model = parse(EXACT)
    made, report = surgeon.rewrite(model, fast_gelu, check=check)
    assert [node.op_type for node in made.graph.node] == ["FastGelu"]
    assert report.check.outcome.value == "unproved"
    assert "because fast_gelu changes numbers on purpose; without, the models agree" in report.check.reason

    @surgeon.rule(patterns=[lambda g, x: g.relu(g.abs(x))])
    def wrong(g, x):
        return g.relu(x)

    both = parse(EXACT.replace("y = Mul(m, half)", "g = Mul(m, half) b = Abs(g) y = Relu(b)"))
    with pytest.raises(surgeon.CheckFailed) as caught:
        surgeon.rewrite(both, [fast_gelu, wrong], check=check)
    assert [site.rule for site in caught.value.report.rolled_back] == ["wrong"]
    assert [site.rule for site in caught.value.report.sites] == ["fast_gelu"]
