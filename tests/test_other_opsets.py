"""Nodes that do not belong to the opset which their model declares: no rule and no shape relies on them."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import surgeon

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
