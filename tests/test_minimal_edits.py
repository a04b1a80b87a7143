"""The minimal edits between two models: the result equals the target, and equal parts stay in place."""

import onnx
import pytest
from hypothesis import given, settings
from onnx import helper

from surgeon.file.editable_model import EditableModel
from surgeon.file.minimal_patch import minimal_patch
from surgeon.file.model import Model
from tests import sampling
from tests.model_samples import everywhere
from tests.wire_strategies import models

few = settings(max_examples=sampling.examples(100), deadline=None)


def known(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model without fields that are unknown."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    copy.DiscardUnknownFields()
    return copy


def same(one: onnx.ModelProto, other: onnx.ModelProto) -> bool:
    """Whether two models are equal, NaN equal to NaN."""
    return known(one).SerializeToString(deterministic=True) == known(other).SerializeToString(deterministic=True)


@few
@given(models(), models())
def test_any_model_is_made_of_any_other(old, new):
    with Model.open(old, threshold=1 << 40) as model:
        other = onnx.ModelProto.FromString(new)
        assert same(minimal_patch(model, other).to_proto(), other)


@pytest.mark.parametrize("wanted", ["", "tensor_type", "sequence_type", "optional_type"])
@pytest.mark.parametrize(("first", "last"), [("tensor_type", "sequence_type"), ("sequence_type", "tensor_type")])
def test_a_member_that_a_later_one_replaces_does_not_come_back(first, last, wanted):
    """The file holds two members of a oneof; the last one counts, and goes."""
    inner = b""
    for name in (first, last):
        one = onnx.TypeProto(denotation="")
        getattr(one, name).SetInParent()
        if name == "tensor_type":
            one.tensor_type.elem_type = 1
        inner += one.SerializeToString()
    value = onnx.ValueInfoProto(name="x").SerializeToString() + b"\x12" + bytes([len(inner)]) + inner
    graph = b"j" + bytes([len(value)]) + value
    old = b":" + bytes([len(graph)]) + graph
    assert onnx.ModelProto.FromString(old).graph.value_info[0].type.WhichOneof("value") == last
    other = onnx.ModelProto.FromString(old)
    other.graph.value_info[0].type.Clear()
    if wanted:
        getattr(other.graph.value_info[0].type, wanted).SetInParent()
    with Model.open(old, threshold=1 << 40) as model:
        assert same(minimal_patch(model, other).to_proto(), other)


@pytest.mark.parametrize("wanted", [{}, {"dim_value": 3}, {"dim_param": "m"}])
def test_a_number_that_a_name_replaces_does_not_come_back(wanted):
    dims = onnx.TensorShapeProto.Dimension(dim_value=2).SerializeToString()
    dims += onnx.TensorShapeProto.Dimension(dim_param="n").SerializeToString()
    body = b"\n" + bytes([len(dims)]) + dims
    for tag in (b"\x12", b"\n", b"\x12", b"j", b":"):  # shape, tensor_type, type, value_info, graph
        body = tag + bytes([len(body)]) + body
    other = onnx.ModelProto.FromString(body)
    (dim,) = other.graph.value_info[0].type.tensor_type.shape.dim
    assert dim.dim_param == "n"
    dim.CopyFrom(onnx.TensorShapeProto.Dimension(**wanted))
    with Model.open(body, threshold=1 << 40) as model:
        assert same(minimal_patch(model, other).to_proto(), other)


@few
@given(models())
def test_a_model_as_it_is_needs_no_edit(data):
    with Model.open(data, threshold=16) as model:
        assert EditableModel(model).patch().empty


def test_what_is_not_touched_keeps_its_bytes():
    source = everywhere()
    data = source.SerializeToString()
    with Model.open(source, threshold=16) as model:
        overlay = EditableModel(model)
        overlay.skeleton.graph.doc_string = "edited"
        patch = overlay.patch()
        new = sum(len(piece) for piece in patch.pieces() if isinstance(piece, bytes))
        wanted = onnx.ModelProto.FromString(data)
        wanted.graph.doc_string = "edited"
        assert same(patch.to_proto(), wanted)
    assert new < 40  # the name, and the lengths of what holds it


def test_a_renamed_weight_keeps_its_data_where_they_are():
    weight = helper.make_tensor("w", onnx.TensorProto.FLOAT, [4096], bytes(16384), raw=True)
    node = helper.make_node("Add", ["x", "w"], ["y"])
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4096]) for name in "xy"]
    source = helper.make_model(helper.make_graph([node], "g", ends[:1], ends[1:], [weight]))
    with Model.open(source) as model:
        overlay = EditableModel(model)
        overlay.skeleton.graph.initializer[0].name = overlay.skeleton.graph.node[0].input[1] = "weight"
        assert overlay.value(overlay.skeleton.graph.initializer[0]).shape == (4096,)
        patch = overlay.patch()
        assert sum(len(piece) for piece in patch.pieces() if isinstance(piece, bytes)) < 40
        made = patch.to_proto()
    assert made.graph.initializer[0].name == "weight"
    assert made.graph.initializer[0].raw_data == weight.raw_data


@pytest.mark.parametrize("order", [[2, 0, 1], [0], [1, 2], []])
def test_rows_are_moved_and_taken_out(order):
    nodes = [helper.make_node("Relu", [f"a{place}"], [f"a{place + 1}"]) for place in range(3)]
    source = helper.make_model(helper.make_graph(nodes, "g", [], []))
    with Model.open(source) as model:
        overlay = EditableModel(model)
        del overlay.skeleton.graph.node[:]
        overlay.skeleton.graph.node.extend(nodes[place] for place in order)
        made = overlay.patch().to_proto()
    assert [node.input[0] for node in made.graph.node] == [f"a{place}" for place in order]
