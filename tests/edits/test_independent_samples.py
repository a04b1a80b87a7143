"""Samples of a dynamic batch differ in every input, so an edit that gives all samples the first one's is refused."""

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest

import surgeon
from surgeon.edits import Free
from surgeon.errors import CheckFailed
from tests.command_line import run

FIRST = """
g (float[1, 12] x, {dtype}[1, 12] {name}) => (float[1, 12] y)
{{ s = Shape <start = 1, end = 2> (x)  zero = Sub (s, s)  first = Gather <axis = 0> ({picked}, zero)
   m = Cast <to = 1> ({cast})  y = Mul ({factor}, m) }}
"""


def of_first_sample(name, dtype, picked=None):
    """y = x * input, in which every sample of one of the two is the first, because its index is a computed 0."""
    names = ("x", name, "first") if picked == "x" else (name, "first", "x")
    text = FIRST.format(dtype=dtype, name=name, **dict(zip(("picked", "cast", "factor"), names, strict=True)))
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> {text}')


INPUTS = [
    *(("mask", dtype, None) for dtype in ("float", "bool", "int64")),
    *(("attention_mask", "int64", None), ("position_ids", "int64", None)),
    *(("ids", "int64", None), ("k", "int32", None), ("mask", "int64", "x"), ("lengths", "int64", None)),
]


@pytest.mark.parametrize(("name", "dtype", "picked"), INPUTS)
def test_an_input_of_the_first_sample_for_all_samples_fails(name, dtype, picked):
    with pytest.raises(CheckFailed, match=r"With a dynamic dim batch, 'y' differs by .* separate runs of the original"):
        surgeon.edit(of_first_sample(name, dtype, picked), Free(0, "batch"))


@pytest.mark.parametrize("count", [1, 2])
def test_equal_inputs_of_the_user_are_varied(count):
    """Sets of the user that all contain the same mask still become samples with different masks."""
    random, mask = np.random.default_rng(3), np.array([[1] * 7 + [0] * 5])
    given = [{"x": random.standard_normal((1, 12)).astype(np.float32), "mask": mask} for _ in range(count)]
    with pytest.raises(CheckFailed, match="'y' differs by"):
        surgeon.edit(of_first_sample("mask", "int64"), Free(0, "batch"), options=surgeon.CheckOptions(inputs=given))


def test_a_dim_that_may_be_a_batch_is_not_proved():
    """Nothing but its name shows that a dim is a batch, so the report says how to compare sample by sample."""
    _, report = surgeon.edit(of_first_sample("mask", "bool"), Free(0, "N"))
    assert report.outcome == "unproved"
    assert report.check.reason == (
        "At N=2 and 3, 'y' depends on the order along N; if N is a batch, compare each sample: --free 0=batch."
    )


def test_rows_that_name_their_sample_are_not_compared():
    """The rows of NonZero have the index of their sample, and as many as there are values: one per sample here."""
    source = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 18]>
    g (float[1, 3] x) => (float[1, 3] y, int64[rows, 2] found)
    { y = Softmax (x)  best = Hardmax (x)  z = NonZero (best)  found = Transpose (z) }""")
    _, report = surgeon.edit(source, Free(0, "batch"))
    assert report.outcome == "unproved"
    assert "'found' depends on several samples" in report.check.reason


def test_a_failed_edit_is_not_written(tmp_path):
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(of_first_sample("mask", "bool"), source)
    found = run("edit", source, out, "--free", "0=batch")
    assert found.exit_code == 1
    assert "FAILED" in found.output
    assert not out.exists()


PICKED = """
g (float[1, 4] x, int64[1, 4] mask) => (float[1, 4] y)
<int64[1, 4, 2] tuples = {{0, 0, 0, 1, 0, 2, 0, 3}}>
{{ b = Cast <to = 9> (mask)  {before}  p = GatherND (b, {picked})  m = Cast <to = 1> (p)  y = Mul (x, m) }}
"""


@pytest.mark.parametrize("names", [("batch",), ("sequence", "batch"), ("batch", "sequence")])
@pytest.mark.parametrize(("before", "picked"), [("", "tuples"), ("t = Identity (tuples)", "t")])
def test_the_mask_of_each_sample_is_picked_by_index_tuples(before, picked, names):
    """Transformers picks a mask by tuples of batch and key; with one size dynamic, the tuples are computed."""
    text = PICKED.format(before=before, picked=picked)
    made = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> {text}')
    for name in names:
        made, report = surgeon.edit(made, Free(("batch", "sequence").index(name), name))
        assert report.outcome == "proved", report.check.reason
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    size = 4 if len(names) == 1 else 9
    x, mask = np.ones((3, size), np.float32), np.tri(3, size, dtype=np.int64)
    assert np.array_equal(session.run(None, {"x": x, "mask": mask})[0], x * mask)


OWN = """
g (float[1, 12] x, {dtype}[1, 12] {name}) => (float[1, 12] y) <int64[2] rows = {{1, 12}}>
{{ m = Cast <to = 1> ({name})  r = Reshape (m, rows)  y = Mul (x, r) }}
"""


@pytest.mark.parametrize(("name", "dtype"), [entry[:2] for entry in INPUTS])
def test_an_input_of_each_sample_is_proved(name, dtype):
    source = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> {OWN.format(name=name, dtype=dtype)}')
    _, report = surgeon.edit(source, Free(0, "batch"))
    assert report.outcome == "proved", report.check.reason


def test_equal_values_in_all_samples_are_reported():
    """With a single key there is only one valid mask, which says nothing about other samples."""
    source = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 18]>
    g (float[1, 12] x, int64[1, 1] attention_mask) => (float[1, 12] y) <int64[2] one = {1, 1}>
    { m = Cast <to = 1> (attention_mask)  r = Reshape (m, one)  y = Mul (x, r) }""")
    _, report = surgeon.edit(source, Free(0, "batch"))
    assert report.outcome == "unproved"
    assert report.check.reason.endswith("but only for equal values of 'attention_mask' in all samples.")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_dynamic_dims_are_both_reported(order):
    source = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 18]>
    g (float[1, 5] x) => (float[1, 5] y) <int64[2] rows = {1, 5}> { r = Reshape (x, rows)  y = Softmax (r) }""")
    _, report = surgeon.edit(source, [Free(axis, ("batch", "sequence")[axis]) for axis in order])
    assert report.outcome == "unproved"
    assert "At batch=2 and 7 each sample has the same outputs as in the original." in report.check.reason
    assert "At sequence=10 and 6 the edited model runs" in report.check.reason


def test_of_two_dynamic_dims_a_wrong_batch_fails():
    with pytest.raises(CheckFailed, match="With a dynamic dim batch, 'y' differs by"):
        surgeon.edit(of_first_sample("mask", "bool"), [Free(1, "sequence"), Free(0, "batch")])
