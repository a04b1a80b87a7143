"""The structural check: what it complains of, and what it accepts because the model came that way."""

from collections.abc import Callable

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser

from surgeon.ir.verify_rewrite import new_violations
from tests.counting import calls, growth

HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>\n'


def sketch(body: str) -> ModelProto:
    """A model from x to y, both float[2], with these nodes."""
    return parser.parse_model(f"{HEAD} g (float[2] x) => (float[2] y) {{ {body} }}")


SOUND = sketch("t = Relu(x) y = Neg(t)")


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("t = Relu(x) y = Neg(q)", "Tensor 'q' is used in the graph, but no node produces it."),
        ("t = Relu(x) t = Abs(x) y = Neg(t)", "Tensor 't' is defined twice in the graph"),
        ("t = Relu(x) x = Abs(t) y = Neg(t)", "Tensor 'x' is defined twice in the graph"),
        ("y = Neg(t) t = Relu(x)", "nodes are out of order"),
        ("t = Add(x, u) u = Neg(t) y = Neg(t)", "computed from itself: the graph has a cycle"),
        ("t = foo.Relu(x) y = Neg(t)", "uses domain 'foo', which the graph does not import"),
        ("t = Reluu(x) y = Neg(t)", "No Op registered for Reluu"),
        ("t = Relu(x, x) y = Neg(t)", "input size 2"),
        ("t = LeakyRelu<alpah = 1.0>(x) y = Neg(t)", "Unrecognized attribute: alpah"),
        ("t = Relu(x)", "Tensor 'y' is used in the graph, but no node produces it."),
    ],
)
def test_each_fault_gets_one_sentence(body: str, complaint: str) -> None:
    """One fault, one complaint that names it."""
    complaints = new_violations(SOUND, sketch(body))
    assert len(complaints) == 1, complaints
    assert complaint in complaints[0]
    assert complaints[0].endswith((".", ")."))


@pytest.mark.parametrize(
    "body",
    [
        "y = Neg(t) t = Relu(x)",
        "t = SimplifiedThing(x) y = Neg(t)",
        "t = foo.Relu(x) y = Neg(t)",
        "t = Relu(x) t = Abs(x) y = Neg(t)",
    ],
)
def test_faults_that_were_there_are_accepted(body: str) -> None:
    """A rewrite is not blamed for what its input brought, also where it touched other nodes."""
    before = sketch(body)
    after = sketch(body.replace("y = Neg(t)", "y = Abs(t)"))
    assert new_violations(before, before) == []
    assert new_violations(before, after) == []


def test_an_ort_only_op_may_be_moved_but_no_new_kind_may_appear() -> None:
    """The same unknown op again is accepted; another unknown op is not."""
    before = sketch("t = SimplifiedThing(x) y = Neg(t)")
    assert new_violations(before, sketch("u = Abs(x) t = SimplifiedThing(u) y = Neg(t)")) == []
    assert len(new_violations(before, sketch("t = SimplifiedThing(x) y = OtherThing(t)"))) == 1


def test_default_domain_spelled_out_is_the_default_domain() -> None:
    """`ai.onnx::Abs` is checked as `Abs`."""
    after = sketch("t = Relu(x) y = Neg(t)")
    after.graph.node[0].domain = "ai.onnx"
    assert new_violations(SOUND, after) == []
    after.graph.node[0].op_type = "Reluu"
    assert len(new_violations(SOUND, after)) == 1


BRANCHES = (
    "c = Constant<value = bool {{1}}>() y = If (c) "
    "<then_branch = t () => (float[2] a) {{ {then} }}, else_branch = e () => (float[2] b) {{ b = Neg(x) }}>"
)


@pytest.mark.parametrize(
    ("then", "complaint"),
    [
        ("a = Relu(q)", "Tensor 'q' is used in the graph, but no node produces it."),
        ("r = Relu(x) r = Abs(x) a = Neg(r)", "defined twice in then_branch of If 'y' in the graph"),
        ("a = Neg(r) r = Relu(x)", "out of order"),
        ("a = foo.Neg(x)", "domain 'foo'"),
        ("a = Reluu(x)", "No Op registered for Reluu"),
    ],
)
def test_bodies_are_checked_too(then: str, complaint: str) -> None:
    """A fault inside a branch is found and placed."""
    before = sketch(BRANCHES.format(then="a = Relu(x)"))
    assert new_violations(before, before) == []
    complaints = new_violations(before, sketch(BRANCHES.format(then=then)))
    assert len(complaints) == 1, complaints
    assert complaint in complaints[0]


def test_a_body_may_capture_and_shadow_but_not_use_what_comes_later() -> None:
    """A capture makes the If depend on the node that makes the captured tensor."""
    captured = sketch("k = Abs(x) " + BRANCHES.format(then="a = Relu(k)"))
    assert new_violations(SOUND, captured) == []
    assert new_violations(SOUND, sketch("k = Abs(x) " + BRANCHES.format(then="k = Neg(x) a = Relu(k)"))) == []
    late = new_violations(SOUND, sketch(BRANCHES.format(then="a = Relu(k)") + " k = Abs(x)"))
    assert len(late) == 1
    assert "out of order" in late[0]
    cycle = new_violations(SOUND, sketch(BRANCHES.format(then="a = Relu(k)") + " k = Abs(y)"))
    assert len(cycle) == 1
    assert "cycle" in cycle[0]


FUNCTION = """<ir_version: 8, opset_import: ["" : 17, "l" : 1]> g (float[2] x) => (float[2] y) {{ y = l.f(x) }}
<domain: "l", opset_import: ["" : 17]> f (a) => (b) {{ {body} }}"""


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("b = Relu(q)", "Tensor 'q' is used in function 'f', but no node produces it."),
        ("b = com.microsoft.Gelu(a)", "domain 'com.microsoft', which function 'f' does not import"),
        ("b = Reluu(a)", "No Op registered for Reluu"),
    ],
)
def test_local_functions_are_checked_with_their_own_imports(body: str, complaint: str) -> None:
    """A function body stands by itself: its inputs, its imports."""
    before = parser.parse_model(FUNCTION.format(body="b = Relu(a)"))
    assert new_violations(before, before) == []
    complaints = new_violations(before, parser.parse_model(FUNCTION.format(body=body)))
    assert any(complaint in text for text in complaints), complaints


def stripped(name: str) -> TensorProto:
    """A tensor whose payload was cut out."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[4096, 4096], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="surgeon.payload", value="0")
    return tensor


def test_cut_out_payloads_are_no_fault() -> None:
    """Neither an initializer nor a Constant needs its payload; a payload of the wrong size is a fault."""
    after = sketch("t = Add(x, k) u = MatMul(t, w) y = Neg(u)")
    after.graph.initializer.extend([stripped("w")])
    after.graph.node.insert(0, helper.make_node("Constant", [], ["k"], value=stripped("k")))
    assert new_violations(SOUND, after) == []
    short = numpy_helper.from_array(np.zeros(4, np.float32), "short")
    short.dims[0] = 5
    after.graph.initializer.append(short)
    assert len(new_violations(SOUND, after)) == 1


def test_an_input_without_a_type_is_a_fault_only_when_new() -> None:
    """The model's frame is checked as well."""
    after = sketch("t = Relu(x) y = Neg(t)")
    after.graph.output[0].type.Clear()
    assert len(new_violations(SOUND, after)) == 1
    assert new_violations(after, after) == []


def checked_chain(length: int) -> Callable[[], None]:
    """A check of that many nodes, of which every sixth is another than before."""
    nodes = [helper.make_node("Relu", [f"t{i}"], [f"t{i + 1}"], name=f"n{i}") for i in range(length)]
    value = helper.make_tensor_value_info("t0", TensorProto.FLOAT, [2])
    end = helper.make_tensor_value_info(f"t{length}", TensorProto.FLOAT, [2])
    graph = helper.make_graph(nodes, "g", [value], [end])
    before = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    after = ModelProto()
    after.CopyFrom(before)
    for node in after.graph.node[::6]:
        node.op_type = "Abs"

    def check() -> None:
        assert new_violations(before, after) == []

    return check


def test_a_large_model_takes_a_few_calls_a_node() -> None:
    """However large it is; five of them today."""
    checked_chain(100)()
    assert calls(checked_chain(10_000)) < 8 * 10_000
    assert growth(checked_chain, 1_000, 4_000) < 1.1


ORT_ONLY = (
    '<ir_version: 8, opset_import: ["" : {opset}]> agraph (float[n, 4] x) => (float[n, 4] y) '
    "<float[4] s = {{1, 1, 1, 1}}> {{ y = {node} }}"
)


@pytest.mark.parametrize(
    ("opset", "node", "complaint"),
    [
        (17, "SimplifiedLayerNormalization(x, s)", ""),
        (13, "LayerNormalization(x, s)", ""),
        (17, "SimplifiedLayerNormalization<eps = 1.0>(x, s)", "no attribute 'eps'"),
        (17, "SimplifiedLayerNormalization(x)", "has 2 inputs"),
        (17, "SimplifiedLayerNorm(x, s)", "No Op registered"),
    ],
)
def test_ops_that_only_ort_knows_are_compared_with_its_schemas(opset, node, complaint):
    """onnx.checker knows no such op in the default domain; ONNX Runtime does, and so do its schemas."""
    after = parser.parse_model(ORT_ONLY.format(opset=opset, node=node))
    before = parser.parse_model(ORT_ONLY.format(opset=opset, node="Add(x, s)"))
    found = new_violations(before, after)
    assert bool(found) == bool(complaint)
    assert complaint in " ".join(found)


@pytest.mark.parametrize(("attribute", "is_good"), [("epsilon", True), ("eps", False)])
def test_ops_that_only_ort_knows_are_checked_inside_functions(attribute, is_good):
    """The rest of the function is still checked by onnx.checker."""
    text = (
        '<ir_version: 8, opset_import: ["" : 17, "local" : 1]> agraph (float[n, 4] x, float[4] s) => (float[n, 4] y) '
        '{{ y = local.norm(x, s) }} <domain: "local", opset_import: ["" : 17]> norm (x, s) => (y) {{ {body} }}'
    )
    before = parser.parse_model(text.format(body="y = Mul(x, s)"))
    after = parser.parse_model(text.format(body=f"y = SimplifiedLayerNormalization<{attribute} = 1.0>(x, s)"))
    assert (not new_violations(before, after)) == is_good
