"""Local functions: their bodies, attribute references, constants, opset and imports."""

import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper
from surgeon.patterns.activations.gelu import gelu

import surgeon
from surgeon import CheckFailed, Graph, Tensor
from surgeon.proof.model.load_check import LoadAnswer
from tests.models import graph, make, matches, ops, opset, reasons, run
from tests.test_scopes import IF, branches, erf_form, relu_tanh


def with_function(body, attributes=(), opset_version=17, call="y = my.block(x)", domains=(), dtype="float", main=17):
    """A model that calls the local function my::block."""
    model = graph(call, f"({dtype}[n, 4] x) => ({dtype}[n, 4] y)", header=opset(main))
    nodes = graph(body, "(float[n, 4] v) => (float[n, 4] w)", header=opset(17)).graph.node
    imports = [helper.make_opsetid(name, number) for name, number in (("", opset_version), *domains)]
    model.functions.append(helper.make_function("my", "block", ["v"], ["w"], nodes, imports, list(attributes)))
    return model


FUNCTION = (
    "sqrt2 = Constant<value_float = 1.4142135>() one = Constant<value_float = 1.0>() "
    "half = Constant<value_float = 0.5>() " + erf_form("v", "w")
)


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
    """The dtype of the function's input is unknown, so constants follow a tensor, which must be made first."""

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
    after, _ = run(graph("t = Tanh(x) y = Relu(t)"), make(relu_tanh, replaced), check="none")
    assert [tensor.data_type for tensor in after.graph.initializer] == [TensorProto.FLOAT16]


def test_an_unknown_dtype_in_the_main_graph_needs_castlike_too():
    model = graph("u = my.unknown(x) t = Tanh(u) w = Relu(t) y = my.known(w)", header=opset(17))
    after, _ = run(model, make(relu_tanh, scaled_relu), check="none")
    assert ops(after.graph).count("CastLike") == 2
    model = graph("u = my.unknown(x) t = Tanh(u) w = Relu(t) y = my.known(w)", header=opset(14))
    assert "needs CastLike" in run(model, make(relu_tanh, scaled_relu), check="none")[1].misses[0].reason


@pytest.mark.parametrize(("opset_version", "main"), [(18, 17), (17, 18)])
def test_the_function_s_opset_decides(opset_version, main, monkeypatch):
    """ONNX Runtime inlines it at the model's opset all the same, so that such a result is not written."""

    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.tanh(x))

    def mean(g: Graph, x: Tensor) -> Tensor:
        return g.mul(x, g.reduce_mean(x, axes=[-1]))

    model = with_function("t = Tanh(v) w = Relu(t)", opset_version=opset_version, main=main)
    with pytest.raises(CheckFailed, match="ONNX Runtime loads the original but not the result"):
        run(model, make(pattern, mean), check="none")
    monkeypatch.setattr("surgeon.pipeline.driver.loading", lambda *_, **__: LoadAnswer())
    after, _ = run(model, make(pattern, mean), check="none")
    [node] = [node for node in after.functions[0].node if node.op_type == "ReduceMean"]
    found = len(node.input), [item.name for item in node.attribute]
    assert found == ((2, []) if opset_version == 18 else (1, ["axes"]))


def test_functions_with_overloads_are_both_rewritten():
    model = with_function(FUNCTION)
    model.ir_version = 10
    second = model.functions.add()
    second.CopyFrom(model.functions[0])
    model.functions[0].overload, second.overload = "first", "second"
    model.graph.node[0].overload = "second"
    after, _ = run(model, gelu, check="none")
    assert [ops(function) for function in after.functions] == [["Gelu"], ["Gelu"]]
    assert [function.overload for function in after.functions] == ["first", "second"]
    assert after.graph.node[0].overload == "second"


def test_a_call_to_a_local_function_is_an_op():
    model = with_function(FUNCTION, call="h = my.block(x) y = Relu(h)")
    assert len(matches(model, lambda g, x: g.relu(g.op("my::block", x)))) == 1


def test_a_body_inside_a_function():
    body = branches(
        erf_form("v", "tr"),
        "er = Neg(v)",
        head="(float[n, 4] v, bool flag) => (float[n, 4] w)",
        after="w = Identity(r)",
        constants="",
    ).graph.node
    constants = graph(FUNCTION.partition("d = ")[0] + "y = Neg(x)").graph.node[:3]
    model = graph("y = my.block(x, flag)", IF, header=opset(17))
    imports = [helper.make_opsetid("", 17)]
    model.functions.append(helper.make_function("my", "block", ["v", "flag"], ["w"], [*constants, *body], imports))
    after, _ = run(model, gelu)
    assert ops(after.functions[0]) == ["If", "Gelu", "Neg", "Identity"]
    assert "com.microsoft" in {item.domain for item in after.functions[0].opset_import}


@pytest.mark.parametrize("op", ["Sigmoid", "Softmax", "Swish"])
@pytest.mark.parametrize("dtypes", [("double",), ("float", "double"), ("float16", "float")], ids=str)
def test_constants_in_a_function_follow_the_dtype_of_each_call(op, dtypes):
    """Also a second constant, behind a node that reads the first."""
    opset = 24 if op == "Swish" else 20
    inputs = ", ".join(f"{dtype}[n, 4] x{place}" for place, dtype in enumerate(dtypes))
    outputs = ", ".join(f"{dtype}[n, 4] y{place}" for place, dtype in enumerate(dtypes))
    calls = " ".join(f"y{place} = f.f.F(x{place})" for place in range(len(dtypes)))
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : {opset}, "f.f" : 1]>
        g ({inputs}) => ({outputs}) {{ {calls} }}
        <domain: "f.f", opset_import: ["" : {opset}]> F (x) => (y) {{ y = {op}(x) }}""")
    _, report = surgeon.rewrite(model, "onnx", target="decomposed")
    assert report.outcome == "proved"
