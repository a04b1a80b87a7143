"""Bodies of If, Loop and Scan at any depth, and local functions: captures, constants, names, imports."""

import numpy as np
import onnx
from surgeon.patterns.activations.bias_gelu import bias_gelu
from surgeon.patterns.activations.gelu import gelu

from surgeon import Constant, Graph, Tensor
from tests.models import graph, index_of, make, matches, ops, reasons, run

CONSTANTS = "float sqrt2 = {1.4142135}, float one = {1.0}, float half = {0.5}"
IF = "(float[n, 4] x, bool flag) => (float[n, 4] y)"


def erf_form(x, y, stem=""):
    """The exact GELU of x in ONNX text; inner tensors begin with `stem`."""
    return (
        f"{stem}d = Div({x}, sqrt2) {stem}e = Erf({stem}d) {stem}a = Add({stem}e, one) {stem}m = Mul({x}, {stem}a) "
        f"{y} = Mul({stem}m, half)"
    )


def branches(then, other, before="", after="y = Identity(r)", constants=CONSTANTS, head=IF, header=""):
    return graph(
        f"{before} r = If (flag) <then_branch = t () => (float[n, 4] tr) {{ {then} }}, "
        f"else_branch = e () => (float[n, 4] er) {{ {other} }}> {after}",
        head,
        constants,
        header,
    )


def relu_tanh(g: Graph, x: Tensor) -> Tensor:
    return g.relu(g.tanh(x))


def as_neg(g: Graph, x: Tensor) -> Tensor:
    return g.neg(g.neg(g.relu(g.sinh(x))))


def test_bodies_are_searched_with_captured_inputs_and_constants():
    after, report = run(branches(erf_form("x", "tr"), "er = Neg(x)"), gelu)
    assert report.proved
    assert report.sites[0].scope == "then_branch of r"
    assert ops(after.graph) == ["If", "Gelu", "Neg", "Identity"]
    assert not after.graph.initializer


def test_the_same_names_in_sibling_branches():
    after, report = run(branches(erf_form("x", "tr"), erf_form("x", "er")), gelu)
    assert ops(after.graph) == ["If", "Gelu", "Gelu", "Identity"]
    assert len(report.sites) == 2
    names = [node.name for attribute in after.graph.node[0].attribute for node in attribute.g.node]
    assert len(set(names)) == 2


def test_bodies_nested_twice():
    inner = (
        f"tr = If (flag) <then_branch = i () => (float[n, 4] ir) {{ {erf_form('h', 'ir')} }}, "
        "else_branch = j () => (float[n, 4] jr) { jr = Neg(h) }>"
    )
    after, report = run(branches(inner, "er = Neg(h)", before="h = Tanh(x)"), gelu)
    assert report.proved
    assert ops(after.graph) == ["Tanh", "If", "If", "Gelu", "Neg", "Neg", "Identity"]
    assert not after.graph.initializer


def test_initializers_of_a_body_are_constants_and_go_with_the_match():
    model = branches("tr = Neg(x)", "er = Neg(x)", constants="")
    then = next(item.g for item in model.graph.node[0].attribute if item.name == "then_branch")
    inner = graph(erf_form("x", "tr"), "(float[n, 4] x) => (float[n, 4] tr)", CONSTANTS).graph
    then.ClearField("node")
    then.node.extend(inner.node)
    then.initializer.extend(inner.initializer)
    after, report = run(model, gelu)
    assert len(report.sites) == 1
    assert not next(item.g for item in after.graph.node[0].attribute if item.name == "then_branch").initializer


def test_new_initializers_land_in_the_scope_of_the_match():
    def scaled(g: Graph, x: Tensor) -> Tensor:
        return g.sum(g.abs(x), 2.0)

    after, _ = run(branches("t = Tanh(x) tr = Relu(t)", "er = Neg(x)"), make(relu_tanh, scaled), check="none")
    then = next(item.g for item in after.graph.node[0].attribute if item.name == "then_branch")
    assert len(then.initializer) == 1
    assert [tensor.name for tensor in after.graph.initializer] == ["sqrt2", "one", "half"]


def test_an_inner_tensor_captured_by_a_body_blocks_and_is_named():
    model = branches("tr = Neg(e)", "er = Neg(x)", before=erf_form("x", "z"), after="y = Add(r, z)")
    _, report = run(model, gelu, check="none")
    assert not report.sites
    assert "'e' (output of 'e') is also read by 'tr' (in then_branch of r)" in report.misses[0].reason


def test_an_outer_tensor_that_a_body_hands_on_blocks():
    model = branches("tr = Identity(t)", "er = Neg(x)", before="t = Tanh(x) z = Relu(t)", after="y = Add(r, z)")
    body = next(item.g for item in model.graph.node[2].attribute if item.name == "then_branch")
    body.ClearField("node")
    body.output[0].name = "t"
    assert "it is an output of then_branch of r" in reasons(model, relu_tanh)


LOOP = """(float[4] x, int64 n) => (float[4] y) <bool go = {{1}}, {constants}> {{
  y = Loop (n, go, x) <body = b (int64 i, bool c, float[4] {carried}) => (bool c2, float[4] out) {{
    c2 = Identity(c) {body} }}> }}"""


def loop(body, carried="v", constants=CONSTANTS):
    from surgeon.testing import parse

    return parse(LOOP.format(body=body, carried=carried, constants=constants))


def test_loop_bodies_with_carried_names():
    after, report = run(loop(erf_form("v", "out")), gelu)
    assert report.proved
    assert ops(after.graph) == ["Loop", "Identity", "Gelu"]


def test_a_body_input_named_like_an_outer_initializer_is_no_constant():
    model = loop(f"{erf_form('v', 'q')} out = Add(q, half)")
    body = model.graph.node[0].attribute[0].g
    body.input[2].name = "half"
    for node in body.node:
        node.input[:] = ["half" if name == "v" else name for name in node.input]
    assert not matches(model, lambda g, x: g.mul(x, 0.5))
    index = index_of(model)
    assert index.constants.get(index.main, "half") is not None
    assert index.constants.get(index.scopes[1], "half") is None


def test_a_branch_output_that_is_inside_blocks():
    model = branches("tr = Tanh(x) z = Relu(tr)", "er = Neg(x)")
    assert "it is an output of then_branch of r" in reasons(model, relu_tanh)


def test_scan_bodies():
    from surgeon.testing import parse

    model = parse("""(float[2] s, float[5, 2] xs) => (float[2] f, float[5, 2] ys) {
      f, ys = Scan<num_scan_inputs = 1, body = b (float[2] acc, float[2] v) => (float[2] nxt, float[2] yi) {
        nxt = Add(acc, v) t = Tanh(v) yi = Relu(t) }>(s, xs) }""")
    after, report = run(model, make(relu_tanh, as_neg), check="none")
    assert len(report.sites) == 1
    assert ops(after.graph) == ["Scan", "Add", "Sinh", "Relu", "Neg", "Neg"]


def test_siblings_of_a_captured_tensor_in_a_body():
    def pattern(g: Graph, x: Tensor) -> tuple[Tensor, Tensor]:
        return g.sin(x), g.cos(x)

    [match] = matches(branches("s = Sin(x) c = Cos(x) tr = Add(s, c)", "er = Neg(x)"), pattern)
    assert match.outputs == ("s", "c")


def test_a_weight_of_the_outer_scope_is_a_constant_in_a_body():
    constants = CONSTANTS + ", float[4] b = {1, 2, 3, 4}"
    model = branches(f"s = Add(x, b) {erf_form('s', 'tr')}", "er = Neg(x)", constants=constants)
    after, _ = run(model, [gelu, bias_gelu])
    assert ops(after.graph) == ["If", "BiasGelu", "Neg", "Identity"]
    assert [tensor.name for tensor in after.graph.initializer] == ["b"]
    assert np.array_equal(onnx.numpy_helper.to_array(after.graph.initializer[0]), [1, 2, 3, 4])

    def pattern(g: Graph, x: Tensor, w: Constant) -> Tensor:
        return g.add(x, w)

    assert len(matches(model, pattern)) == 2


def test_unread_nodes_in_order():
    """Those whose outputs nobody reads and that are none of the graph's, also one whose outputs are all left out."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n] x) => (float[n] y) '
        "{ a = Exp(x) y = Neg(x) b = Sin(a) c = Cos(x) d = Abs(c) }"
    )
    model.graph.node[3].output[0] = ""
    model.graph.node[4].input[0] = "x"
    assert [node.op for node in index_of(model).main.dead_nodes()] == ["Sin", "Cos", "Abs"]
