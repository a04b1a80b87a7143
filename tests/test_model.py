"""Opening models: the skeleton, payloads that stay in the file, records by address."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from surgeon.errors import ModelFileError
from surgeon.file.external_data.locations import tensors_of
from surgeon.file.model import Model
from surgeon.file.patch import Patch
from surgeon.file.protobuf.payloads import PAYLOAD_KEY
from tests import sampling
from tests.model_samples import GRAPH, everywhere, reference, same, tensor
from tests.wire_strategies import models, record, varint

few = settings(max_examples=sampling.examples(100), deadline=None)


def test_payloads_in_every_place_stay_in_the_file(tmp_path: Path) -> None:
    """No large tensor is parsed, each value is right, and `full` gives the whole model back."""
    proto = everywhere()
    onnx.save(proto, tmp_path / "m.onnx")
    with Model.open(tmp_path / "m.onnx") as model:
        originals = list(tensors_of(proto))
        assert model.skeleton.ByteSize() < 4000
        # three copies of `inner` and three sparse tensors, 2 each; t, ts0, ts1, w, f, fa, ti, ta
        assert sum(e.key == PAYLOAD_KEY for t in tensors_of(model.skeleton) for e in t.external_data) == 20
        assert model.payload_bytes == sum(len(t.raw_data) for t in originals if t.name != "small")
        for cut, original in zip(tensors_of(model.skeleton), originals, strict=True):
            assert same(model.value(cut), numpy_helper.to_array(original)), original.name
        assert onnx.ModelProto.FromString(model.serialize(model.skeleton)) == proto
        assert not model.external_tensors


@few
@given(models(), st.sampled_from([0, 3, 10, 1024]))
def test_skeleton_and_payloads_make_the_full_parse(data: bytes, threshold: int) -> None:
    """On any wire data: the skeleton differs from the full parse in cut tensors alone, and their values are right."""
    full = onnx.ModelProto.FromString(data)
    assume(PAYLOAD_KEY.encode() not in data)
    model = Model.open(data, threshold=threshold)
    assert onnx.ModelProto.FromString(model.serialize(model.skeleton)) == full
    for cut, original in zip(tensors_of(model.skeleton), tensors_of(full), strict=True):
        if original.data_location == TensorProto.EXTERNAL:
            continue
        assert len(original.raw_data) <= threshold or not cut.raw_data
        try:
            expected = reference(original)
        except (ValueError, TypeError, KeyError, OverflowError):
            continue
        if any(n < 0 for n in original.dims):  # numpy takes a negative size for "whatever is left"
            with pytest.raises(ModelFileError, match="negative"):
                model.value(cut)
            continue
        assert same(model.value(cut), expected)


@few
@given(models())
def test_without_edits_the_bytes_are_those_of_the_source(data: bytes) -> None:
    """An empty patch gives the identity."""
    model = Model.open(data)
    assert Patch(model).empty
    assert Patch(model).apply() == data


def test_a_model_without_large_payloads_is_parsed_as_it_is() -> None:
    """Nothing is cut below the threshold, at it, or from a ModelProto given as such."""
    proto = helper.make_model(helper.make_graph([], "g", [], [], [tensor("w", 256)]))
    model = Model.open(proto)
    assert model.skeleton == proto
    assert model.path is None
    assert model.payload_bytes == 0
    assert Model.open(proto, threshold=1023).payload_bytes == 1024


def test_large_raw_data_are_a_view_of_the_file(tmp_path: Path) -> None:
    """One raw record is not copied, also behind an explicit data_location of DEFAULT; it outlives the model."""
    weight = tensor("w")
    weight.data_location = TensorProto.DEFAULT
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [], [weight])), tmp_path / "m.onnx")
    model = Model.open(tmp_path / "m.onnx")
    value = model.value(model.skeleton.graph.initializer[0])
    assert not value.flags.owndata
    assert not value.flags.writeable
    model.close()
    np.testing.assert_array_equal(value, np.arange(600) + 1)


def test_a_changed_file_is_not_read(tmp_path: Path) -> None:
    """A value is refused when the file was rewritten since it was opened."""
    path = tmp_path / "m.onnx"
    onnx.save(everywhere(), path)
    model = Model.open(path)
    os.truncate(path, 3000)
    with pytest.raises(ModelFileError, match="changed on disk"):
        model.value(model.skeleton.graph.initializer[0])


def test_split_tensor_is_put_together() -> None:
    """A tensor in two records whose parts are small, but not their sum; a chunk packed, the next not."""
    first = record(2, 0, b"\x01") + record(1, 0, varint(300)) + record(4, 2, np.arange(150, dtype=np.float32).tobytes())
    second = b"".join(record(4, 5, np.float32(i).tobytes()) for i in range(150, 300))
    attribute = record(1, 2, b"value") + record(5, 2, first) + record(20, 0, b"\x04") + record(5, 2, second)
    graph = record(1, 2, record(5, 2, attribute))
    model = Model.open(record(8, 2, b"") + record(7, 2, graph), threshold=800)
    cut = model.skeleton.graph.node[0].attribute[0].t
    assert not cut.float_data
    np.testing.assert_array_equal(model.value(cut), np.arange(300, dtype=np.float32))


def test_address_of_nested_graphs() -> None:
    """Records are found by address in bodies and functions, payloads in full."""
    proto = everywhere()
    model = Model.open(proto)
    names = [a.name for a in proto.graph.node[0].attribute]
    body = (*GRAPH, (1, 0), (5, names.index("then")), (6, 0))
    inner = proto.graph.node[0].attribute[names.index("then")].g
    assert model.count(body, 1) == 1
    assert model.record(body, 5, 0) == inner.initializer[0].SerializeToString()
    assert model.record(((25, 0),), 7, 0) == proto.functions[0].node[0].SerializeToString()
    assert model.record((), 7, 0) == proto.graph.SerializeToString()
    with pytest.raises(IndexError):
        model.record(body, 5, 1)
