"""dead_nodes: what nobody reads goes, with what only it read; and what stays."""

import onnx
import pytest
from surgeon.patterns.cleanup.dead_nodes import dead_nodes

import surgeon
from surgeon.edits import Hold
from surgeon.testing import Case, check_fires, check_spares, parse
from tests.onnx_cases import onnx_cases

HEAD = "(float[n, 4] x) => (float[n, 4] y)"
CONSTANTS = "float[4] w = {1, 2, 3, 4}, bool yes = {1}, int64 three = {3}"


def graph(body, head=HEAD, header=""):
    return parse(f"{header}{head} <{CONSTANTS}> {{ {body} }}")


OPSETS = '<ir_version: 8, opset_import: ["" : 17, "custom" : 1, "local" : 1]> agraph '
CALLED = '<domain: "local", opset_import: ["" : 17]> twice (a) => (b) { b = Add(a, a) }'
HIDING = '<domain: "local", opset_import: ["" : 17, "custom" : 1]> told (a) => (b) { b = custom.Log(a) }'

# fmt: off
FIRES = [
    Case(dead_nodes, "one node", graph("y = Neg(x) a = Exp(x)")),
    Case(dead_nodes, "a branch, swept as one place", graph("a = Exp(x) b = Mul(a, w) y = Neg(x) c = Sin(b)")),
    Case(dead_nodes, "two ends of one branch", sites=2, model=graph("a = Exp(x) b = Neg(a) y = Neg(x) c = Sin(a)")),
    Case(dead_nodes, "several outputs, none of them read", graph("a, b = Split<axis = 1>(x) y = Neg(x)")),
    Case(dead_nodes, "what a live node reads too stays", graph("a = Exp(x) y = Neg(a) b = Mul(a, w)")),
    Case(dead_nodes, "in a body",
         graph("m = ReduceMax<keepdims = 0>(x) q = Cast<to = 9>(m) y = If (q) <then_branch = one () => (float[n, 4] a) "
               "{ u = Exp(x) a = Neg(x) }, else_branch = two () => (float[n, 4] a) { a = Exp(x) }>")),
    Case(dead_nodes, "with its bodies, and what they read",
         graph("m = ReduceMax<keepdims = 0>(x) q = Cast<to = 9>(m) v = Sin(x) y = Neg(x) z = If (q) <then_branch = one "
               "() => (float[n, 4] a) { a = Neg(v) }, else_branch = two () => (float[n, 4] a) { a = Exp(x) }>")),
    Case(dead_nodes, "a scan of a loop is read, what is made beside it is not",
         graph("y = Identity(x) k, s = Loop (three, yes, x) <body = b (int64 i, bool go, float[n, 4] a) => "
               "(bool go2, float[n, 4] c, float[n, 4] e) { u = Sin(a) c = Neg(a) e = Exp(a) go2 = Identity(go) }> "
               "t = Neg(s) o = ReduceSum(t) z = Add(y, o)", head="(float[n, 4] x) => (float[n, 4] z)")),
    Case(dead_nodes, "a call of a local function",
         onnx.parser.parse_model(f"{OPSETS}{HEAD} {{ y = Neg(x) a = local.twice(x) }} {CALLED}")),
]
NEGATIVES = [
    Case(dead_nodes, "every node is read", graph("a = Exp(x) y = Neg(a)"), why="the outputs of every node are read"),
    Case(dead_nodes, "an output of the graph", why="the outputs of every node are read",
         model=graph("y = Neg(x) z = Exp(x)", "(float[n, 4] x) => (float[n, 4] y, float[n, 4] z)")),
    Case(dead_nodes, "one of its outputs is read", why="the outputs of every node are read",
         model=graph("a, y = Split<axis = 1>(x)", "(float[n, 4] x) => (float[n, 2] y)")),
    Case(dead_nodes, "read in a body alone", why="the outputs of every node are read",
         model=graph("m = ReduceMax<keepdims = 0>(x) q = Cast<to = 9>(m) v = Sin(x) y = If (q) <then_branch = one () "
                     "=> (float[n, 4] a) { a = Neg(v) }, else_branch = two () => (float[n, 4] a) { a = Exp(x) }>")),
    Case(dead_nodes, "a custom op may write a log", why="may have side effects",
         model=graph("y = Neg(x) a = custom.Log(x)", header=OPSETS)),
    Case(dead_nodes, "one in a body", why="may have side effects",
         model=graph("y = Neg(x) a = If (yes) <then_branch = one () => (float[n, 4] a) { a = custom.Log(x) }, "
                     "else_branch = two () => (float[n, 4] a) { a = Exp(x) }>", header=OPSETS)),
    Case(dead_nodes, "one in a local function", why="may have side effects",
         model=onnx.parser.parse_model(f"{OPSETS}{HEAD} {{ y = Neg(x) a = local.told(x) }} {HIDING}")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_weights_that_only_dead_nodes_read_go_and_others_stay():
    """No other rule takes out what was dead before it came."""
    model = parse(
        f"{HEAD} <float[4] w = {{1, 2, 3, 4}}, float[4] unread = {{1, 2, 3, 4}}> "
        "{ a = Exp(x) b = Mul(a, w) c = Identity(x) y = Neg(c) }"
    )
    made, report = surgeon.rewrite(model, dead_nodes)
    assert [node.op_type for node in made.graph.node] == ["Identity", "Neg"]
    assert [item.name for item in made.graph.initializer] == ["unread"]
    assert report.outcome == "proved"
    assert [node.op for node in (*report.sites[0].replaced, *report.sites[0].swept)] == ["Mul", "Exp"]
    others, _ = surgeon.rewrite(model, "cleanup,-dead_nodes")
    assert [node.op_type for node in others.graph.node] == ["Exp", "Mul", "Neg"]


def test_a_dead_reader_is_in_no_rules_way():
    """What only it read too is an inner tensor, once it is gone."""
    body = "h = Mul(x, half) d = Div(x, root) e = Erf(d) o = Add(e, one) y = Mul(h, o) z = Sin(e)"
    model = parse(f"{HEAD} <float half = {{0.5}}, float root = {{1.4142135}}, float one = {{1}}> {{ {body} }}")
    assert not surgeon.rewrite(model, "gelu")[1].sites
    made, report = surgeon.rewrite(model, "dead_nodes,gelu")
    assert report.outcome == "proved"
    assert [node.op_type for node in made.graph.node] == ["Gelu"]


def test_several_dead_nodes_alike_that_rules_wrote_are_no_endless_rewrite():
    """As the constants that branches were folded to, once their readers are folded too: AffineGrid in parts."""
    case = next(case for case in onnx_cases() if case.name == "test_affine_grid_2d_expanded")
    model, _ = surgeon.edit(case.model, Hold("size", "2,3,5,6"), check="none")
    made, report = surgeon.rewrite(model, "cleanup")
    assert not report.rolled_back
    assert "If" not in {node.op_type for node in made.graph.node}


def test_a_model_without_outputs_is_refused():
    """Each of its nodes is dead, and a result without nodes would compute the same."""
    model = graph("y = Neg(x) z = Exp(y)", "(float[n, 4] x) => ()")
    for rules in ("dead_nodes", "ort"):
        with pytest.raises(surgeon.GraphError, match="declares no outputs, .* surgeon edit IN OUT --add-output z"):
            surgeon.rewrite(model, rules)
    made, _ = surgeon.edit(model, surgeon.edits.AddOutput("z"))
    assert not surgeon.rewrite(made, dead_nodes)[1].sites


def test_edits_of_a_model_without_outputs_do_not_empty_it():
    """They remove no nodes because nothing reads them."""
    body = "q = QuantizeLinear(x, s, p) d = DequantizeLinear(q, s, p) y = Neg(d) z = Exp(x)"
    constants = "float s = {0.5}, uint8 p = {128}"
    model = parse(f"(float[n, 4] x) => () <{constants}> {{ {body} }}")
    made, _ = surgeon.edit(model, surgeon.edits.StripQdq())
    assert [node.op_type for node in made.graph.node] == ["QuantizeLinear", "Neg", "Exp"]
