"""If by a constant condition: the branch that is taken, whatever it holds, and what stays an If."""

import numpy as np
import pytest
from onnx import helper, numpy_helper
from surgeon.patterns.cleanup.constant_folding import constant_folding
from surgeon.patterns.cleanup.constant_if import constant_if

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = "(float[n, 4] x) => (float[n, 4] y)"
CONSTANTS = "bool yes = {1}, bool no = {0}, float two = {2}, int64[1] sizes = {5}, int64 five = {5}"


def graph(body, head=HEAD, constants=CONSTANTS):
    return parse(f"{head} <{constants}> {{ {body} }}")


def branches(then, other, condition="yes", outputs="y"):
    inner = ", ".join(f"float[n, 4] {name}" for name in ("a", "b")[: outputs.count(",") + 1])
    return (
        f"{outputs} = If ({condition}) <then_branch = one () => ({inner}) {{ {then} }}, "
        f"else_branch = two () => ({inner}) {{ {other} }}>"
    )


SIMPLE = branches("a = Mul(x, two)", "a = Exp(x)")
FIRES = [
    Case(constant_if, "the first branch", graph(SIMPLE)),
    Case(constant_if, "the second branch", graph(branches("a = Exp(x)", "s = Neg(x) a = Mul(s, two)", "no"))),
    Case(
        constant_if,
        "a condition from a Constant node",
        graph("c = Constant<value = bool {0}>() " + branches("a = Exp(x)", "a = Neg(x)", "c")),
    ),
    Case(
        constant_if,
        "a branch that hands on what is outside",
        graph("z = Neg(x) " + branches("a = Identity(z)", "a = Exp(x)")),
    ),
    Case(
        constant_if,
        "a branch with weights of its own",
        graph(
            "y = If (yes) <then_branch = one () => (float[n, 4] a) <float[4] w = {1, 2, 3, 4}> { a = Mul(x, w) }, "
            "else_branch = two () => (float[n, 4] a) { a = Exp(x) }>"
        ),
    ),
    Case(
        constant_if,
        "two outputs, one of them unused",
        graph(branches("a = Mul(x, two) b = Neg(x)", "a = Exp(x) b = Exp(x)", outputs="u, y")),
    ),
    Case(
        constant_if,
        "an If in the branch that depends on a tensor",
        graph(
            "m = ReduceMax<keepdims = 0>(x) c = Greater(m, two) "
            + branches(
                "a = If (c) <then_branch = p () => (float[n, 4] q) { q = Neg(x) }, "
                "else_branch = r () => (float[n, 4] t) { t = Mul(x, two) }>",
                "a = Exp(x)",
            )
        ),
    ),
    Case(
        constant_if,
        "an If in the branch that alone reads what is made outside",
        graph(
            "z = Exp(x) m = ReduceMax<keepdims = 0>(x) c = Greater(m, two) "
            + branches(
                "a = If (c) <then_branch = p () => (float[n, 4] q) { q = Neg(z) }, "
                "else_branch = r () => (float[n, 4] t) { t = Mul(x, two) }>",
                "a = Exp(x)",
            )
        ),
    ),
    Case(
        [constant_folding, constant_if],
        "a condition computed from a size that is fixed",
        graph(
            "t = Shape(x) d = Gather(t, five0) c = Equal(d, four) " + branches("a = Mul(x, two)", "a = Exp(x)", "c"),
            constants=CONSTANTS + ", int64 five0 = {1}, int64 four = {4}",
        ),
    ),
    Case(
        constant_if,
        "a condition computed from a size that is fixed, which nobody has folded",
        graph(
            "t = Shape(x) d = Gather(t, one) c = Equal(d, four) " + branches("a = Mul(x, two)", "a = Exp(x)", "c"),
            constants=CONSTANTS + ", int64 one = {1}, int64 four = {4}",
        ),
    ),
    Case(
        constant_if,
        "a condition computed from constants, which others read too",
        graph(
            "c = And(yes, no) f = Cast<to = 1>(c) z = Add(x, f) "
            + branches("a = Mul(z, two)", "a = Exp(z)", "c", outputs="y")
        ),
    ),
]
NEGATIVES = [
    Case(
        constant_if,
        "a condition that is computed",
        graph("m = ReduceMax<keepdims = 0>(x) c = Greater(m, two) " + branches("a = Neg(x)", "a = Exp(x)", "c")),
        why="no If has a constant condition",
    ),
    Case(
        constant_if,
        "a condition computed from a size that is free",
        graph(
            "t = Shape(x) d = Gather(t, none) c = Equal(d, four) " + branches("a = Neg(x)", "a = Exp(x)", "c"),
            constants=CONSTANTS + ", int64 none = {0}, int64 four = {4}",
        ),
        why="no If has a constant condition",
    ),
    Case(
        constant_if,
        "a condition that the caller gives",
        graph(branches("a = Neg(x)", "a = Exp(x)", "c"), "(float[n, 4] x, bool c) => (float[n, 4] y)"),
        why="no If has a constant condition",
    ),
    Case(
        constant_if,
        "a condition that the caller may override",
        graph(branches("a = Neg(x)", "a = Exp(x)", "c"), "(float[n, 4] x, bool c = {1}) => (float[n, 4] y)"),
        why="no If has a constant condition",
    ),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """The branch stands where the If was, and the result agrees."""
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    """The If stays, and the report says why."""
    check_spares(case)


def test_a_branch_that_another_rule_has_changed_stays_until_it_is_read_anew():
    """Taken as the file has it, it would read weights that folding has taken out."""
    text = """(float[n, 4] x) => (float[n, 4] y) <float[4] w = {1, 2, 3, 4}, bool yes = {1}> {
        y = If (yes) <then_branch = taken () => (float[n, 4] t) { v = Neg(w) t = Add(x, v) },
                      else_branch = left () => (float[n, 4] e) { e = Identity(x) }> }"""
    model, report = surgeon.rewrite(parse(text), "constant_folding,constant_if")
    assert report.outcome == "proved"
    assert not report.rolled_back
    again, _ = surgeon.rewrite(model, "constant_if")
    assert [node.op_type for node in again.graph.node] == ["Constant", "Add"]


def test_one_run_takes_a_branch_that_other_rules_would_change():
    """The condition is known before folding has come to it, and to the branch."""
    text = """(float[n, 4] x) => (float[n, 4] y) <float[4] w = {1, 2, 3, 4}, int64 one = {1}, int64 four = {4}> {
        s = Shape(x) d = Gather(s, one) c = Equal(d, four)
        y = If (c) <then_branch = taken () => (float[n, 4] t) { v = Neg(w) u = Identity(x) z = Exp(u) t = Add(u, v) },
                    else_branch = left () => (float[n, 4] e) { e = Identity(x) }> }"""
    model, report = surgeon.rewrite(parse(text), "ort", check="both")
    assert report.outcome == "proved"
    assert sorted({node.op_type for node in model.graph.node} - {"Constant"}) == ["Add"]
    again, second = surgeon.rewrite(model, "ort", check="none")
    assert not second.sites
    assert again == model


def test_large_constants_of_nodes_in_a_branch_and_below_it_come_along():
    """A model that is opened leaves them in the file, and what is written anew holds them."""
    large = np.arange(3000, dtype=np.float32)

    def constant(name):
        return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(large, "v"))

    def branch(name, nodes):
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, 1, [3000])])

    inner = helper.make_node(
        "If",
        ["c"],
        ["b"],
        then_branch=branch("s", [constant("v"), helper.make_node("Add", ["a", "v"], ["s"])]),
        else_branch=branch("t", [helper.make_node("Neg", ["a"], ["t"])]),
    )
    taken = branch("b", [constant("w"), helper.make_node("Mul", ["x", "w"], ["a"]), inner])
    other = branch("e", [helper.make_node("Exp", ["x"], ["e"])])
    model = parse("(float[3000] x, bool c) => (float[3000] y) <bool yes = {1}> { y = Identity(x) }")
    del model.graph.node[:]
    model.graph.node.append(helper.make_node("If", ["yes"], ["y"], then_branch=taken, else_branch=other))
    made, report = surgeon.rewrite(model, "constant_if", check="both")
    assert report.outcome == "proved"
    assert [node.op_type for node in made.graph.node] == ["Constant", "Mul", "If"]


def test_a_branch_that_reads_what_another_site_finds_repeated_is_proved():
    """The mini-model has one tensor for both, and the branch reads it by its name."""
    taken = branches("a = Exp(s)", "a = Identity(s)", outputs="t")
    ends = "(float[n, 4] x) => (float[n, 4] y, float[n, 4] z)"
    model = graph(f"r = Neg(x) s = Neg(x) {taken} y = Relu(t) z = Tanh(r)", ends)
    _, report = surgeon.rewrite(model, ["constant_if", "duplicate_nodes"])
    assert (report.counts["constant_if"], report.counts["duplicate_nodes"]) == (1, 1)
    assert not report.doubts


RANKS = (
    "y0 = If(other) <then_branch = a () => (float[n, 4] p) { p = Neg(x) }, else_branch = b () => (float[n, 4, 1] q) "
    "{ last = Constant<value_ints = [2]>() q = Unsqueeze(x, last) }> y1 = Shape(y0) y2 = Cast<to = 1>(y1)"
)
DEEP = RANKS.replace("p = Neg(x)", "p = If(other) <then_branch = c () => (float[n, 4] r) { r = Neg(x) }, "
                     "else_branch = d () => (float[n, 4] s) { s = Abs(x) }>")  # fmt: skip
UNTAKEN = [
    ("branches of two ranks", RANKS, "tensorrt", None),
    ("branches of two ranks, and another If", DEEP, "tensorrt", None),
    ("a pool by the third power", "u = Unsqueeze(x, two) y2 = LpPool<kernel_shape = [2], p = 3>(u)", "tensorrt", None),
    ("no kernel for CUDA", "y2 = Unique(x)", "ort", "cuda"),
    ("no other kernel for CUDA", "y2 = Det(x)", "ort", "cuda"),
]


@pytest.mark.parametrize(("body", "target", "ep"), [case[1:] for case in UNTAKEN], ids=[case[0] for case in UNTAKEN])
def test_what_a_target_does_not_run_may_move(body, target, ep):
    """It was in the branch before, and the target runs the model no less afterwards."""
    made = graph(
        f"y = If(yes) <then_branch = one () => (float[] z) {{ {body} z = Neg(y2) }}, "
        "else_branch = e () => (float[] w) { w = Abs(x) }>",
        "(float[n, 4] x, bool other) => (float[] y)",
        "bool yes = {1}, int64[1] two = {2}",
    )
    _, report = surgeon.rewrite(made, [constant_if], target=target, ep=ep, check="none")
    assert report.counts["constant_if"] == 1
