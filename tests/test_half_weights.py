"""Stored values that half precision cannot hold, wherever they are stored; and what several tensors share."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import surgeon
from surgeon.file.io import file_copy
from surgeon.file.tensors import casting
from surgeon.file.tensors.casting import CastRange, range_of
from tests.half_models import converted, kept, model

BRANCHES = """c = Less(s, zero) h = If(c) <then_branch = yes () => (float[N, 64] e1) { e1 = MatMul(x, w) },
    else_branch = no () => (float[N, 64] e2) { e2 = Sin(x) }> y = Tanh(h)"""
WIDE = "(float[N, 64] x) => (float[N, 64] y)"


def weight(most=1e6, scale=1.0):
    """Numbers of which one is as large as that."""
    values = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32) * np.float32(scale)
    values[3, 4] = most
    return values


def tensor(values, name="w"):
    return numpy_helper.from_array(values, name)


def in_branch(values):
    head = "(float[N, 64] x, float s) => (float[N, 64] y)"
    made = model(BRANCHES, head, weights="<float zero = {0}>")
    made.graph.node[1].attribute[0].g.initializer.append(tensor(values))
    return made


def in_constant(values):
    made = model("a = MatMul(x, w) y = Tanh(a)", WIDE)
    made.graph.node.insert(0, helper.make_node("Constant", [], ["w"], value=tensor(values, "")))
    return made


def in_function(values):
    made = model("a = acme.times(x) y = Tanh(a)", WIDE, more=', "acme" : 1')
    nodes = [helper.make_node("Constant", [], ["w"], value=tensor(values, "")), helper.make_node("MatMul", "aw", "b")]
    made.functions.append(helper.make_function("acme", "times", ["a"], ["b"], nodes, [helper.make_opsetid("", 18)]))
    return made


def stored(made):
    """The large tensor of a model."""
    holders = [made.graph, *(item.g for node in made.graph.node for item in node.attribute if item.HasField("g"))]
    found = [item for holder in holders for item in holder.initializer if len(item.dims) == 2]
    nodes = [*made.graph.node, *(node for function in made.functions for node in function.node)]
    found += [node.attribute[0].t for node in nodes if node.op_type == "Constant"]
    (one,) = found
    return one


@pytest.mark.parametrize("place", [in_branch, in_constant, in_function])
def test_a_large_weight_stays_wherever_it_is_stored(place):
    """Whatever keeps it is told by its name."""
    result, report = converted(place(weight()), keep=())
    assert stored(result).data_type == TensorProto.FLOAT
    assert report.told == ["'w' reaches 1e+06; the largest float16 is 65,504, so it stays float32"]
    assert kept(report) == [("MatMul", "weight")]


@pytest.mark.parametrize("place", [in_branch, in_constant, in_function])
def test_a_large_weight_saturates_where_asked_wherever_it_is_stored(place):
    result, report = converted(place(weight()), keep=(), clamp=True, check="none")
    assert numpy_helper.to_array(stored(result)).max() == 65504
    assert report.told == ["'w' saturates at 65,504 (from 1e+06)"]
    assert report.kept == []


def test_a_tiny_weight_stays_unless_it_is_clamped():
    made = in_constant(weight(most=0.0, scale=1e-8))
    result, report = converted(made, check="none")
    assert (stored(result).data_type, kept(report)) == (TensorProto.FLOAT, [("MatMul", "weight")])
    result, report = converted(made, keep=(), clamp=True, check="none")
    assert (stored(result).data_type, report.kept) == (TensorProto.FLOAT16, [])
    assert report.told[0].endswith("loses digits below 6.1e-05, so it is rounded")


def test_few_numbers_are_clamped_too():
    """What is not converted in the end is not told."""
    made = model("y = Mul(x, k)", weights="<float k = {1000000.0}>")
    assert kept(converted(made)[1]) == [("Mul", "weight")]
    result, report = converted(made, clamp=True, check="none")
    assert numpy_helper.to_array(result.graph.initializer[0]) == 65504
    assert report.told == ["'k' contains 1e+06; the largest float16 is 65,504, so it saturates"]
    _, report = converted(made, clamp=True)  # the outputs tell
    assert (report.outcome, report.told) == ("unchanged", [])


@pytest.mark.parametrize("clamp", [False, True])
def test_a_weight_that_a_cast_would_make_infinite_stays(clamp):
    """One that is read in both dtypes is stored once; a Cast saturates nothing."""
    made = model("a = MatMul(x, w) b = Tanh(a) c = Sin(w) y = MatMul(b, c)", WIDE)
    made.graph.initializer.append(tensor(weight()))
    _, report = converted(made, keep=["op:MatMul", "op:Tanh"], clamp=clamp)
    assert report.told == ["'w' reaches 1e+06; the largest float16 is 65,504, so it stays float32"]
    assert "Sin" in {item.op for item in report.kept if item.kind == "weight"}


def test_a_table_that_int32_does_not_hold_stays():
    ids = np.arange(2048)
    ids[7] = 1 << 40
    made = model("a = Gather(t, i) y = Add(a, i)", "(int64[N] i) => (int64[N] y)")
    made.graph.initializer.append(numpy_helper.from_array(ids, "t"))
    result, report = converted(made, to="int32")
    assert result.graph.initializer[0].data_type == TensorProto.INT64
    assert "'t' reaches 1.09951e+12; the largest int32 is 2.14748e+09, so it stays int64" in report.told


def test_the_value_of_an_input_that_need_not_be_given_is_converted_with_it():
    made = model("y = MatMul(x, w)", "(float[N, 4] x, float[4, 4] w) => (float[N, 4] y)")
    made.graph.initializer.append(tensor(np.eye(4, dtype=np.float32)))
    result, report = converted(made, io="convert")
    assert (report.outcome, report.casts) == ("proved", 0)
    assert result.graph.initializer[0].data_type == TensorProto.FLOAT16
    result, report = converted(made)
    assert (report.outcome, result.graph.initializer[0].data_type) == ("proved", TensorProto.FLOAT)


def test_what_tensors_share_in_a_data_file_is_converted_once(tmp_path):
    """And none of them becomes infinite where it is too large."""
    for most, dtype in ((1.0, TensorProto.FLOAT16), (1e6, TensorProto.FLOAT)):
        (tmp_path / "in.bin").write_bytes(weight(most).tobytes())
        made = model("a = MatMul(x, v) b = MatMul(a, w) y = Tanh(b)", WIDE)
        for name in "vw":
            one = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[64, 64], data_location=TensorProto.EXTERNAL)
            for key, value in (("location", "in.bin"), ("offset", "0"), ("length", str(4 * 64 * 64))):
                one.external_data.add(key=key, value=value)
            made.graph.initializer.append(one)
        onnx.save(made, tmp_path / "in.onnx")
        out, _ = surgeon.convert(tmp_path / "in.onnx", output=tmp_path / "out.onnx", keep=(), check="none", force=True)
        assert {item.data_type for item in onnx.load(out).graph.initializer} == {dtype}
        if dtype == TensorProto.FLOAT16:
            assert (tmp_path / "out.onnx.data").stat().st_size == 2 * 64 * 64


def test_data_files_that_are_put_into_the_model_are_those_of_the_new_dtype(tmp_path):
    """Whatever lies by the original under the name that their own file would have."""
    made = model("a = MatMul(x, w) y = Tanh(a)", WIDE)
    made.graph.initializer.append(tensor(weight(2.0)))
    path, out = tmp_path / "m.onnx", tmp_path / "out" / "half.onnx"
    onnx.save(made, path, save_as_external_data=True, location="m.data", size_threshold=0)
    out.parent.mkdir()
    (tmp_path / "half.onnx.data").write_bytes(bytes(2 * 64 * 64))
    surgeon.convert(path, output=out, external_data="inline")
    assert [item.name for item in out.parent.iterdir()] == ["half.onnx"]
    (held,) = onnx.load(out, load_external_data=False).graph.initializer
    assert np.array_equal(numpy_helper.to_array(held), weight(2.0).astype(np.float16))


def test_the_roundings_of_large_weights_count_where_nothing_runs_the_model(tmp_path):
    """Numbers just below the middle between 1 and the next of bfloat16: each loses as much as one can, all alike."""
    made = model("y = MatMul(x, w)", "(float[N, 256] x) => (float[N, 8] y)")
    made.graph.initializer.append(tensor(np.full((256, 8), 1 + 2.0**-8 - 2.0**-12, np.float32)))
    np.savez(tmp_path / "x.npz", x=np.full((2, 256), [[1], [3]], np.float32))
    onnx.save(made, tmp_path / "in.onnx")
    options = surgeon.CheckOptions(inputs=(tmp_path / "x.npz",))
    _, report = surgeon.convert(tmp_path / "in.onnx", output=tmp_path / "out.onnx", to="bfloat16", options=options)
    assert report.oracle == "ONNX Runtime with a rounding at each node"
    assert report.error > 2.0**-9


@pytest.mark.parametrize(("dtype", "least", "most"), [("float16", 6.2e-5, 65504), ("bfloat16", 1.2e-38, 3.38e38)])
def test_what_was_made_reports_what_was_read(dtype, least, most):
    """Of usual numbers within a rounding; of all others, exactly."""
    import ml_dtypes

    new = np.dtype(getattr(ml_dtypes, dtype, np.float16))
    for largest in (least, 1.0, -1.0, most, -most, 1e-45, 3.4e38, -3.4e38, np.inf, np.nan, 0.0):
        array = np.array([0.0, largest, 1e-44], np.float32)
        with np.errstate(over="ignore"):
            made = array.astype(new)
        seen, exact = CastRange(), range_of(array)
        seen.add_made(array, made)
        assert seen.count == exact.count == 3
        assert seen.largest == pytest.approx(exact.largest, rel=0.01)


def test_a_file_is_converted_in_blocks(tmp_path, monkeypatch):
    """Also where the system does not let one read and write at places of one's own."""
    monkeypatch.setattr(casting, "_BLOCK", 100)
    values = weight(1e4)
    made = model("y = MatMul(x, w)", WIDE)
    made.graph.initializer.append(tensor(values))
    for external in (False, True):
        onnx.save(made, tmp_path / "in.onnx", save_as_external_data=external, location="in.bin", size_threshold=0)
        for has_places in (True, False):
            monkeypatch.setattr(file_copy, "HAS_PLACES", has_places)
            out, _ = surgeon.convert(tmp_path / "in.onnx", output=tmp_path / "out.onnx", check="none", force=True)
            found = numpy_helper.to_array(onnx.load(out).graph.initializer[0])
            np.testing.assert_array_equal(found, values.astype(np.float16))


def test_a_file_that_is_shorter_than_it_was_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(casting, "_BLOCK", 100)
    (tmp_path / "a").write_bytes(bytes(4 * 900))
    change = casting.TensorCast("w", TensorProto.FLOAT, TensorProto.FLOAT16)
    with (tmp_path / "a").open("rb") as source, (tmp_path / "b").open("wb") as target, pytest.raises(EOFError):
        change.stream(source.fileno(), 0, 2 * 1000, target.fileno(), 0)


def test_notes_of_a_weight_stay():
    """Its doc string and its metadata, though its numbers are others."""
    given = model("y = MatMul(x, w)", WIDE)
    given.graph.initializer.append(tensor(weight(1.0)))
    given.graph.initializer[0].doc_string = "learned"
    given.graph.initializer[0].metadata_props.add(key="from", value="a run")
    made, _ = converted(given)
    (stored,) = made.graph.initializer
    assert stored.data_type == TensorProto.FLOAT16
    assert (stored.doc_string, stored.metadata_props[0].value) == ("learned", "a run")
