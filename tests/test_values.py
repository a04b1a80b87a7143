"""Values of tensors in every dtype and every storage, against onnx.numpy_helper."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from surgeon.errors import ModelFileError
from surgeon.file.model import Model
from surgeon.file.tensors.decoding import _TYPES, decode_tensor, raw_size
from tests import sampling
from tests.model_samples import reference, same
from tests.wire_strategies import record, tensors

CODES = [code for name, code in TensorProto.DataType.items() if name not in ("UNDEFINED", "STRING")]


def random_raw(code: int, dims: list[int]) -> TensorProto:
    """A tensor of random bits, stored raw."""
    tensor = TensorProto(name="t", data_type=code, dims=dims)
    data = np.random.default_rng(code).integers(0, 256, raw_size(tensor), dtype=np.uint8)
    tensor.raw_data = (data & 1 if code == TensorProto.BOOL else data).tobytes()
    return tensor


def test_every_type_of_onnx_is_known() -> None:
    """A new release of ONNX with a new type fails here."""
    assert set(_TYPES) >= set(CODES)


@pytest.mark.parametrize("code", CODES, ids=TensorProto.DataType.Name)
@pytest.mark.parametrize("dims", [[], [1], [5], [3, 7], [0], [2, 0], [700]], ids=str)
def test_raw_data(code: int, dims: list[int], tmp_path: Path) -> None:
    """Inline, cut out of a file, and in an external file at an odd offset."""
    tensor = random_raw(code, dims)
    expected = numpy_helper.to_array(tensor)
    assert same(decode_tensor(tensor), expected)
    outside = TensorProto(name="e", data_type=code, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "data.bin", "offset": "13", "length": str(len(tensor.raw_data))}.items():
        outside.external_data.add(key=key, value=value)
    (tmp_path / "data.bin").write_bytes(b"x" * 13 + tensor.raw_data + b"y")
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [], [tensor, outside])), tmp_path / "m.onnx")
    for threshold in (0, 1024):
        with Model.open(tmp_path / "m.onnx", threshold=threshold) as model:
            for found in model.skeleton.graph.initializer:
                assert same(model.value(found), expected)


@settings(max_examples=sampling.examples(250), deadline=None)
@given(tensors(), st.sampled_from([0, 4, 1024]))
def test_any_storage(records: list[bytes], threshold: int) -> None:
    """Raw or typed fields, packed or not, in one or more chunks: as onnx.numpy_helper reads them."""
    tensor = TensorProto.FromString(b"".join(records))
    data = record(7, 2, record(5, 2, b"".join(records)))
    model = Model.open(data, threshold=threshold)
    assert same(model.value(model.skeleton.graph.initializer[0]), reference(tensor))


@pytest.mark.parametrize("code", CODES, ids=TensorProto.DataType.Name)
def test_tensors_that_onnx_makes(code: int) -> None:
    """Small numbers by `helper.make_tensor`, which uses the typed fields."""
    values = [1, 2, 1, 1, 2] if code == TensorProto.FLOAT8E8M0 else [0, 1, 1, 0, 1]  # the first has no zero
    if code in (TensorProto.COMPLEX64, TensorProto.COMPLEX128):
        values = [0j, 1 + 1j, 1j, 1, -1]
    tensor = helper.make_tensor("t", code, [5], values)
    expected = numpy_helper.to_array(tensor)
    assert same(decode_tensor(tensor), expected)
    np.testing.assert_array_equal(decode_tensor(tensor).astype(np.complex64), np.array(values, np.complex64))


def test_strings() -> None:
    """UTF-8, and bytes that are not: kept, and told apart."""
    tensor = TensorProto(name="s", data_type=8, dims=[2, 2], string_data=[b"a", "ü".encode(), b"\xff", b""])
    value = decode_tensor(tensor)
    assert value.tolist() == [["a", "ü"], ["\udcff", ""]]
    assert value[1, 0].encode("utf-8", "surrogateescape") == b"\xff"
    assert value.dtype == object


@pytest.mark.parametrize(
    ("tensor", "why"),
    [
        (TensorProto(name="t", data_type=1, dims=[3], raw_data=bytes(8)), "'t' of shape .3. needs 3"),
        (TensorProto(name="t", data_type=1, dims=[2], raw_data=bytes(7)), "needs 2 elements"),
        (TensorProto(name="t", data_type=1, dims=[]), "needs 1 elements"),
        (TensorProto(name="t", data_type=22, dims=[3], raw_data=b"a"), "needs 3 elements"),
        (TensorProto(name="t", data_type=14, dims=[1], float_data=[1.0]), "needs 1 elements"),
        (TensorProto(name="t", data_type=1, dims=[-1], raw_data=b""), "negative dimension"),
        (TensorProto(name="t", data_type=8, dims=[2], string_data=[b"a"]), "needs 2 elements"),
        (TensorProto(name="t", data_type=0, dims=[1]), "data type 0"),
        (TensorProto(name="t", data_type=99, dims=[1]), "data type 99"),
        (TensorProto(name="t", data_type=1, dims=[0], segment=TensorProto.Segment(begin=0)), "segments"),
    ],
)
def test_data_that_do_not_fit_are_refused(tensor: TensorProto, why: str) -> None:
    """One sentence that names the tensor."""
    with pytest.raises(ModelFileError, match=why) as caught:
        decode_tensor(tensor)
    assert "'t'" in str(caught.value)


def make_sparse(indices: np.ndarray, values: np.ndarray, dims: list[int]) -> onnx.SparseTensorProto:
    """A sparse tensor."""
    return helper.make_sparse_tensor(
        numpy_helper.from_array(values, "v"), numpy_helper.from_array(indices.astype(np.int64), "i"), dims
    )


@pytest.mark.parametrize("count", [3, 400])
def test_sparse_tensors(count: int) -> None:
    """Linear and coordinate indices give the same array, inline or cut out."""
    positions = np.sort(np.random.default_rng(0).choice(30 * 40, count, replace=False))
    values = np.arange(1, count + 1, dtype=np.float32)
    dense = np.zeros((30, 40), np.float32)
    dense.reshape(-1)[positions] = values
    graph = helper.make_graph([], "g", [], [])
    graph.sparse_initializer.append(make_sparse(positions, values, [30, 40]))
    graph.sparse_initializer.append(make_sparse(np.stack(np.unravel_index(positions, (30, 40)), 1), values, [30, 40]))
    model = Model.open(helper.make_model(graph))
    for sparse in model.skeleton.graph.sparse_initializer:
        assert same(model.sparse_value(sparse), dense)


def test_sparse_tensors_that_do_not_fit() -> None:
    """Positions outside of the shape, too few of them, and none at all."""
    model = Model.open(helper.make_model(helper.make_graph([], "g", [], [])))
    for indices in ([5, 12], [-1, 2], [1], [[0, 1, 2], [0, 1, 2]]):
        with pytest.raises(ModelFileError, match="indices of sparse tensor 'v'"):
            model.sparse_value(make_sparse(np.array(indices), np.ones(2, np.float32), [3, 4]))
    empty = make_sparse(np.zeros(0), np.zeros(0, np.float16), [2, 2])
    assert same(model.sparse_value(empty), np.zeros((2, 2), np.float16))
