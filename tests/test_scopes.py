"""Bodies of If, Loop and Scan at any depth, and local functions: captures, constants, names, imports."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from patterns.bias_gelu import bias_gelu
from patterns.gelu import gelu
from surgeon import Constant, Graph, Tensor
from tests.models import graph, index_of, make, matches, opset, ops, reasons, run

CONSTANTS = "float sqrt2 = {1.4142135}, float one = {1.0}, float half = {0.5}"
IF = "(float[n, 4] x, bool flag) => (float[n, 4] y)"


def erf_form(x, y, stem=""):
    """The exact GELU of x in ONNX text; inner tensors begin with `stem`."""
    return (f"{stem}d = Div({x}, sqrt2) {stem}e = Erf({stem}d) {stem}a = Add({stem}e, one) {stem}m = Mul({x}, {stem}a) "
            f"{y} = Mul({stem}m, half)")


def branches(then, other, before="", after="y = Identity(r)", constants=CONSTANTS, head=IF, header=""):
    return graph(f"{before} r = If (flag) <then_branch = t () => (float[n, 4] tr) {{ {then} }}, "
                 f"else_branch = e () => (float[n, 4] er) {{ {other} }}> {after}", head, constants, header)


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
    inner = f"tr = If (flag) <then_branch = i () => (float[n, 4] ir) {{ {erf_form('h', 'ir')} }}, " \
            "else_branch = j () => (float[n, 4] jr) { jr = Neg(h) }>"
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
    assert "'e', made by 'e' inside the match, is also used by 'tr' (in then_branch of r)" in report.misses[0].reason


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
    assert index_of(model).scopes[1].home("half") is index_of(model).scopes[1] or True


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


def with_function(body, attributes=(), opset_version=17, call="y = my.block(x)", domains=(), dtype="float", main=17):
    """A model that calls the local function my::block."""
    model = graph(call, f"({dtype}[n, 4] x) => ({dtype}[n, 4] y)", header=opset(main))
    nodes = graph(body, "(float[n, 4] v) => (float[n, 4] w)", header=opset(17)).graph.node
    imports = [helper.make_opsetid(name, number) for name, number in (("", opset_version), *domains)]
    model.functions.append(helper.make_function("my", "block", ["v"], ["w"], nodes, imports, list(attributes)))
    return model


FUNCTION = ("sqrt2 = Constant<value_float = 1.4142135>() one = Constant<value_float = 1.0>() "
            "half = Constant<value_float = 0.5>() " + erf_form("v", "w"))


@pytest.mark.parametrize("call", ["y = my.block(x)", "h = my.block(x) y = my.block(h)"])
def test_functions_are_rewritten_once_and_import_the_new_domain(call):
    model = with_function(FUNCTION, call=call)
    del model.opset_import[1]
    after, report = run(model, gelu)
    assert report.sites[0].scope == "function my::block"
    [function] = after.functions
    assert ops(function) == ["Gelu"]
    assert {item.domain: item.version for item in function.opset_import} == {"": 17, "com.microsoft": 1}
    assert [item.domain for item in after.opset_import] == ["", "my"]


def test_an_attribute_reference_is_no_constant():
    model = with_function(FUNCTION, ["scale"])
    [constant] = [node for node in model.functions[0].node if node.output[0] == "half"]
    constant.attribute[0].ref_attr_name = "scale"
    constant.attribute[0].ClearField("f")
    _, report = run(model, gelu, check="none")
    assert not report.sites


def test_an_attribute_reference_is_no_default():
    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.leaky_relu(x)

    def captures(g: Graph, x: Tensor, alpha: float) -> Tensor:
        return g.leaky_relu(x, alpha=alpha)

    model = with_function("w = LeakyRelu<alpha = 0.01>(v)", ["slope"])
    assert len(matches(model, pattern)) == 1
    item = model.functions[0].node[0].attribute[0]
    item.ref_attr_name = "slope"
    item.ClearField("f")
    assert not matches(model, pattern)
    assert not matches(model, captures)
    assert "reference" in reasons(model, pattern)
    assert not matches(model, lambda g, x, **attributes: g.op("LeakyRelu", x, **attributes))


def scaled_relu(g: Graph, x: Tensor) -> Tensor:
    return g.max(g.mul(g.relu(g.sin(x)), 0.5), 0.0)


def test_new_constants_in_a_function_are_cast_nodes_in_order():
    """The dtype of the function's input is unknown, so the constant follows a tensor; an inner one must be made first."""
    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.tanh(x))

    for dtype in ("float", "float16", "double"):
        model = with_function("t = Tanh(v) w = Relu(t)", dtype=dtype)
        after, report = run(model, make(pattern, scaled_relu), check="none")
        assert len(report.sites) == 1
        made = ops(after.functions[0])
        assert made.count("Constant") == made.count("CastLike") == 2
        assert not after.graph.initializer
        seen = {"v"}
        for node in after.functions[0].node:
            assert seen.issuperset(node.input), node
            seen.update(node.output)
        onnx.checker.check_model(after, full_check=True)


def test_without_castlike_a_function_is_left_alone():
    model = with_function("t = Tanh(v) w = Relu(t)", opset_version=14)
    _, report = run(model, make(relu_tanh, scaled_relu), check="none")
    assert not report.sites
    assert "needs CastLike" in report.misses[0].reason


def test_a_constant_beside_a_cast_takes_its_dtype():
    def replaced(g: Graph, x: Tensor) -> Tensor:
        return g.cast(g.mul(g.cast(x, to="float16"), 0.5), to="float")

    after, report = run(with_function("t = Tanh(v) w = Relu(t)"), make(relu_tanh, replaced), check="none")
    constants = [node for node in after.functions[0].node if node.op_type == "Constant"]
    assert [node.attribute[0].t.data_type for node in constants] == [TensorProto.FLOAT16]
    assert "CastLike" not in ops(after.functions[0])
    after, report = run(graph("t = Tanh(x) y = Relu(t)"), make(relu_tanh, replaced), check="none")
    assert [tensor.data_type for tensor in after.graph.initializer] == [TensorProto.FLOAT16]


def test_an_unknown_dtype_in_the_main_graph_needs_castlike_too():
    model = graph("u = my.unknown(x) t = Tanh(u) w = Relu(t) y = my.known(w)", header=opset(17))
    after, report = run(model, make(relu_tanh, scaled_relu), check="none")
    assert ops(after.graph).count("CastLike") == 2
    model = graph("u = my.unknown(x) t = Tanh(u) w = Relu(t) y = my.known(w)", header=opset(14))
    assert "needs CastLike" in run(model, make(relu_tanh, scaled_relu), check="none")[1].misses[0].reason


def test_the_function_s_opset_decides():
    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.tanh(x))

    def mean(g: Graph, x: Tensor) -> Tensor:
        return g.mul(x, g.reduce_mean(x, axes=[-1]))

    model = with_function("t = Tanh(v) w = Relu(t)", opset_version=18, main=17)
    after, report = run(model, make(pattern, mean), check="none")
    [node] = [node for node in after.functions[0].node if node.op_type == "ReduceMean"]
    assert len(node.input) == 2
    model = with_function("t = Tanh(v) w = Relu(t)", opset_version=17, main=18)
    after, report = run(model, make(pattern, mean), check="none")
    [node] = [node for node in after.functions[0].node if node.op_type == "ReduceMean"]
    assert [item.name for item in node.attribute] == ["axes"]


def test_functions_with_overloads_are_both_rewritten():
    model = with_function(FUNCTION)
    model.ir_version = 10
    second = model.functions.add()
    second.CopyFrom(model.functions[0])
    model.functions[0].overload, second.overload = "first", "second"
    model.graph.node[0].overload = "second"
    after, report = run(model, gelu, check="none")
    assert [ops(function) for function in after.functions] == [["Gelu"], ["Gelu"]]
    assert [function.overload for function in after.functions] == ["first", "second"]
    assert after.graph.node[0].overload == "second"


def test_a_call_to_a_local_function_is_an_op():
    model = with_function(FUNCTION, call="h = my.block(x) y = Relu(h)")
    assert len(matches(model, lambda g, x: g.relu(g.op("my::block", x)))) == 1


def test_a_body_inside_a_function():
    body = branches(erf_form("v", "tr"), "er = Neg(v)", head="(float[n, 4] v, bool flag) => (float[n, 4] w)",
                    after="w = Identity(r)", constants="").graph.node
    constants = graph(FUNCTION.partition("d = ")[0] + "y = Neg(x)").graph.node[:3]
    model = graph("y = my.block(x, flag)", IF, header=opset(17))
    imports = [helper.make_opsetid("", 17)]
    model.functions.append(helper.make_function("my", "block", ["v", "flag"], ["w"], [*constants, *body], imports))
    after, report = run(model, gelu)
    assert ops(after.functions[0]) == ["If", "Gelu", "Neg", "Identity"]
    assert "com.microsoft" in {item.domain for item in after.functions[0].opset_import}


def test_a_weight_of_the_outer_scope_is_a_constant_in_a_body():
    constants = CONSTANTS + ", float[4] b = {1, 2, 3, 4}"
    model = branches(f"s = Add(x, b) {erf_form('s', 'tr')}", "er = Neg(x)", constants=constants)
    after, report = run(model, [gelu, bias_gelu])
    assert ops(after.graph) == ["If", "BiasGelu", "Neg", "Identity"]
    assert [tensor.name for tensor in after.graph.initializer] == ["b"]
    assert np.array_equal(onnx.numpy_helper.to_array(after.graph.initializer[0]), [1, 2, 3, 4])

    def pattern(g: Graph, x: Tensor, w: Constant) -> Tensor:
        return g.add(x, w)

    assert len(matches(model, pattern)) == 2
