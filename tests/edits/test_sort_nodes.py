"""Nodes of a model in topological order, and weights that are no inputs."""

import numpy as np
import onnx
import onnxruntime
import pytest

import surgeon
from surgeon.edits import DropWeightInputs, Rename, SortNodes
from surgeon.testing import parse
from tests.test_unsorted_models import MODELS, shuffled


def outputs(model, feeds):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


@pytest.mark.parametrize("name", MODELS)
def test_nodes_are_sorted(name):
    """Bodies and functions too, whatever else is edited; a sorted model is not changed."""
    made, report = surgeon.edit(shuffled(MODELS[name], 3), [SortNodes(), Rename("x", "renamed")])
    onnx.checker.check_model(made)
    assert report.outcome == "proved"
    assert "topological order" in report.edits[0].said[0]
    again, report = surgeon.edit(made, SortNodes())
    assert report.outcome == "unchanged"
    assert again.SerializeToString() == made.SerializeToString()


def test_only_the_nodes_of_unsorted_graphs_are_written_again():
    """The order of all else stays, and so does a sorted body."""
    model = shuffled(MODELS["gelu"], 3)
    made, _ = surgeon.edit(model, SortNodes())
    assert sorted(node.SerializeToString() for node in made.graph.node) == sorted(
        node.SerializeToString() for node in model.graph.node
    )
    del made.graph.node[:], model.graph.node[:]
    assert made == model


def test_the_check_names_the_edit():
    """What is found can be mended."""
    found = surgeon.check(shuffled(MODELS["gelu"], 3), "onnx")
    assert "--sort-nodes" in str(found)


def with_inputs(version):
    head = '<ir_version: 9, opset_import: ["": 9]>'
    model = parse(f"{head} g (float[2] x) => (float[2] y) <float[2] w = {{1, 2}}> {{ y = Add(x, w) }}")
    model.ir_version = version
    model.graph.input.append(onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [2]))
    return model


@pytest.mark.parametrize(("version", "now"), [(3, 4), (4, 4), (9, 9)])
def test_weights_are_no_inputs(version, now):
    """Version 3 of the IR requires that they are."""
    model = with_inputs(version)
    made, report = surgeon.edit(model, DropWeightInputs())
    onnx.checker.check_model(made)
    assert [value.name for value in made.graph.input] == ["x"]
    assert made.ir_version == now
    assert report.outcome == "proved"
    assert report.edits[0].said[0] == "weights are no longer inputs: w"
    feeds = {"x": np.float32([3, 4])}
    assert np.array_equal(outputs(made, feeds), outputs(model, feeds))
    assert surgeon.edit(made, DropWeightInputs())[1].outcome == "unchanged"
