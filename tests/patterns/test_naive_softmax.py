"""The rules for softmax without the maximum: what fires and what does not."""

import pytest
from surgeon.patterns.activations.naive_softmax import naive_log_softmax, naive_softmax

import surgeon
from surgeon.errors import RuleError
from surgeon.rules.catalogue import resolve
from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = "(float[n, 3, 4] x) => (float[n, 3, 4] y)"


def graph(body, opset=17, constants="int64[1] a = {-1}"):
    return parse(f'<ir_version: 8, opset_import: ["" : {opset}]> agraph {HEAD} <{constants}> {{ {body} }}')


FIRES = [
    Case(naive_softmax, "exp over its sum", graph("p = Exp(x) s = ReduceSum(p, a) y = Div(p, s)")),
    Case(
        naive_softmax, "exp of the difference", graph("s = ReduceLogSumExp<axes = [2]>(x) d = Sub(x, s) y = Exp(d)")
    ),
    Case(
        naive_softmax,
        "over an inner axis",
        graph("p = Exp(x) s = ReduceSum(p, a) y = Div(p, s)", constants="int64[1] a = {1}"),
    ),
    Case(naive_log_softmax, "torch's logsumexp", graph("s = ReduceLogSumExp<axes = [-1]>(x) y = Sub(x, s)")),
    Case(naive_log_softmax, "axes as an input", graph("s = ReduceLogSumExp(x, a) y = Sub(x, s)", opset=18)),
    Case(
        naive_log_softmax,
        "the logarithm of a sum",
        graph("p = Exp(x) t = ReduceSum(p, a) s = Log(t) y = Sub(x, s)"),
    ),
]

NEGATIVES = [
    Case(
        naive_softmax,
        "the sum of something else",
        why="",
        model=graph("p = Exp(x) q = Neg(p) s = ReduceSum(q, a) y = Div(p, s)"),
    ),
    Case(
        naive_softmax,
        "the mean, not the sum",
        why="",
        model=graph("p = Exp(x) s = ReduceMean<axes = [-1]>(p) y = Div(p, s)"),
    ),
    Case(
        naive_softmax,
        "over two axes",
        why="must be over one axis",
        model=graph("p = Exp(x) s = ReduceSum(p, a) y = Div(p, s)", constants="int64[2] a = {1, 2}"),
    ),
    Case(
        naive_softmax,
        "an inner axis below opset 13",
        why="below opset 13",
        model=graph("s = ReduceLogSumExp<axes = [1]>(x) d = Sub(x, s) y = Exp(d)", opset=12),
    ),
    Case(
        naive_log_softmax,
        "the sum of the exponentials of something else",
        why="",
        model=graph("z = Neg(x) s = ReduceLogSumExp<axes = [-1]>(z) y = Sub(x, s)"),
    ),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires_but_for_what_it_names(case):
    """The operation is found, and agrees for all inputs but those that the rule names."""
    report = check_fires(case)
    assert all("extreme and non_finite" in site.proof.reason for site in report.sites)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    """Something near the operation stays as it is, and the report says why."""
    check_spares(case)


def test_they_run_only_where_they_are_named():
    """They change what overflow does: no group holds them, and their file alone does not ask for them."""
    names = {rule.name for group in ("activations", "onnx", "ort") for rule in resolve(group)[group]}
    assert not {name for name in names if name.startswith("unshifted")}
    model = graph("p = Exp(x) s = ReduceSum(p, a) y = Div(p, s)")
    with pytest.raises(RuleError, match="Choose one"):
        surgeon.rewrite(model, "surgeon.patterns.activations.naive_softmax")
