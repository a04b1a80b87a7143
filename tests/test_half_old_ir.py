"""Conversions of models below IR version 4, in which every stored tensor is an input as well."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import surgeon


def test_what_is_stored_is_converted_with_the_input_that_states_it():
    """Also where a node that is kept wants the old dtype of it: then there are two, both stated."""
    held = [numpy_helper.from_array(np.ones((3, 3), np.float32), "w")]
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 3]) for name in ("x", "w")]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], "first"), helper.make_node("Add", ["a", "w"], ["y"], "last")]
    ends = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 3])]
    model = helper.make_model(
        helper.make_graph(nodes, "g", given, ends, held), opset_imports=[helper.make_opsetid("", 9)], ir_version=3
    )
    for keep, dtypes in ((["auto"], [10]), (["name:last"], [1, 10])):
        made, report = surgeon.convert(model, keep=keep)
        assert report.outcome == "proved"
        onnx.checker.check_model(made)
        assert sorted(tensor.data_type for tensor in made.graph.initializer) == dtypes
        stated = {value.name: value.type.tensor_type.elem_type for value in made.graph.input}
        assert {tensor.name: tensor.data_type for tensor in made.graph.initializer}.items() <= stated.items()
