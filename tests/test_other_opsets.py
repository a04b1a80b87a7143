"""Nodes that do not belong to the opset which their model declares: no rule and no shape relies on them."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import surgeon
from tests.models import graph, opset

INTS = {"one": [1], "zero": [0], "two": [2], "none": [0, 0, 0, 0]}
FLOATS = {"low": -1.0, "high": 1.0}
# The opset that a model declares, its nodes (op, inputs, attributes), and the rules that would take one of them out.
MISREAD = {
    "Slice with inputs at 9": (9, [("Slice", "x zero one", {})]),
    "Squeeze with axes as an input at 11": (11, [("Unsqueeze", "x", {"axes": [0]}), ("Squeeze", "@ zero", {})]),
    "Unsqueeze with axes as an input at 11": (11, [("Unsqueeze", "x zero", {}), ("Squeeze", "@", {"axes": [0]})]),
    "ReduceSum with axes as an input at 11": (11, [("ReduceSum", "x one", {}), ("Shape", "@", {})]),
    "ReduceMean with axes as an attribute at 18": (18, [("ReduceMean", "x", {"axes": [1]}), ("Shape", "@", {})]),
    "Clip with inputs at 6": (6, [("Clip", "x low high", {}), ("Clip", "@", {"min": -5.0})]),
    "Clip with attributes at 13": (13, [("Clip", "x", {"min": -1.0, "max": 1.0}), ("Clip", "@ low", {})]),
    "Pad with inputs at 10": (10, [("Pad", "x none", {})]),
    "Split with sizes as an input at 11": (11, [("Split", "x two", {"axis": 0}), ("Shape", "@", {})]),
    "ReduceMax with axes as an input at 13": (13, [("ReduceMax", "x one", {}), ("Shape", "@", {})]),
}


def model_of(opset, nodes):
    made, last = [], "x"
    for place, (op, inputs, attributes) in enumerate(nodes):
        output = "y" if place == len(nodes) - 1 else f"t{place}"
        made.append(helper.make_node(op, inputs.replace("@", last).split(), [output], name=output, **attributes))
        last = output
    kind = TensorProto.INT64 if nodes[-1][0] == "Shape" else TensorProto.FLOAT
    graph = helper.make_graph(
        made,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in INTS.items()]
        + [numpy_helper.from_array(np.array(value, np.float32), name) for name, value in FLOATS.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


@pytest.mark.parametrize("name", MISREAD)
@pytest.mark.parametrize("group", ["cleanup", "ort"])
def test_a_node_of_another_opset_is_left(name, group):
    """The opset of a node decides what its inputs and attributes mean: none of these is replaced or folded."""
    before = model_of(*MISREAD[name])
    after, report = surgeon.rewrite(before, group, check="none")
    assert [node.op_type for node in after.graph.node] == [node.op_type for node in before.graph.node]
    assert not report.sites


def test_the_reason_is_said_with_a_command():
    _, report = surgeon.rewrite(model_of(*MISREAD["Slice with inputs at 9"]), "no_op_slice")
    (miss,) = report.misses
    assert miss.reason == (
        "Slice has 1 input, but this node has 3 at opset 9, which the model declares; list the remedies: surgeon check "
        "IN"
    )


@pytest.mark.parametrize("opset", [9, 10])
def test_a_node_of_the_declared_opset_is_read(opset):
    nodes = [("Slice", "x", {"starts": [0], "ends": [9]})] if opset == 9 else [("Slice", "x zero high_end", {})]
    before = model_of(opset, nodes)
    before.graph.initializer.append(numpy_helper.from_array(np.array([9], np.int64), "high_end"))
    after, _ = surgeon.rewrite(before, "cleanup")
    assert [node.op_type for node in after.graph.node] == ["Identity"]


NORM = (
    "m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes = [-1], epsion = 0.5>(q) "
    "e = Add(v, k) r = Sqrt(e) n = Div(d, r) s = Mul(n, w) y = Add(s, w)"
)


def test_an_attribute_that_the_op_never_had_is_ignored_and_reported():
    """Nothing reads a misspelt attribute, so a rule matches; the report names the node and the nearest attribute."""
    constants = "float k = {1e-5}, float[4] w = {1, 2, 3, 4}"
    model = graph(NORM.replace("epsion", "keepdim"), constants=constants, header=opset(17))
    after, report = surgeon.rewrite(model, "layer_norm", check="none")
    assert [node.op_type for node in after.graph.node] == ["LayerNormalization"]
    assert report.next_steps == (
        "ReduceMean has no attribute 'keepdim', so rules ignore that of v; did you mean 'keepdims'?",
    )


def test_an_ignored_attribute_stays_with_its_node():
    model = graph("a = Relu(x) b = LayerNormalization<epsion = 0.5>(a, w) y = Mul(b, one)", header=opset(17),
                  constants="float[4] w = {1, 2, 3, 4}, float one = {1}")
    after, report = surgeon.rewrite(model, "cleanup")
    assert report.proved
    norm = after.graph.node[1]
    assert [norm.op_type, *norm.output, norm.attribute[0].name] == ["LayerNormalization", "y", "epsion"]
    assert any("did you mean 'epsilon'?" in step for step in report.next_steps)


@pytest.mark.parametrize(
    ("attribute", "reason"),
    [("ReduceMean<axes = [-1], keepdims = 0>(q)", "keepdims"), ("my.mean<axes = [-1], epsion = 0.5>(q)", "")],
)
def test_an_attribute_that_some_op_may_read_is_not_ignored(attribute, reason):
    """Attributes of other opsets decide, and so may those of an op without a schema."""
    body = NORM.replace("ReduceMean<axes = [-1], epsion = 0.5>(q)", attribute)
    model = graph(body, constants="float k = {1e-5}, float[4] w = {1, 2, 3, 4}", header=opset(17))
    after, report = surgeon.rewrite(model, "layer_norm", check="none")
    assert after == model
    assert not report.next_steps
    assert any(reason in miss.reason for miss in report.misses)
