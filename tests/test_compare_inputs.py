"""Inputs of the user's own: where they are found, and what is said of those that do not fit."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import ModelProto, numpy_helper

import surgeon
from surgeon.errors import UsageError
from surgeon.proof.check_options import CheckOptions
from surgeon.proof.check_result import Outcome
from surgeon.proof.model.model_check import ModelCheck
from surgeon.runtime.inputs.user_inputs import read_inputs
from tests.models import check_model
from tests.test_model_check import body, read

TWO = read(
    "g (float[b, 3] x, int64[b] ids) => (float[b, 3] y) { f = Cast<to = 1>(ids) s = ReduceSum(f) y = Add(x, s) }"
)


def npz(path: Path, **arrays: Any) -> Path:
    """A set of arrays as a file."""
    np.savez(path, **arrays)
    return path


def fitting(**others: Any) -> dict[str, Any]:
    """A set that fits TWO, some of it replaced or, by None, left out."""
    arrays = {"x": np.ones((2, 3), np.float32), "ids": np.arange(2), **others}
    return {name: array for name, array in arrays.items() if array is not None}


def test_the_inputs_given_are_the_trials(tmp_path: Path) -> None:
    """No others are made: a fault that they do not reach is not seen."""
    right, wrong = body("y = Relu(x)"), body("y = Abs(x)")
    positive = npz(tmp_path / "p.npz", x=np.linspace(0.1, 1, 16, dtype=np.float32).reshape(2, 8))
    signed = npz(tmp_path / "s.npz", x=np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8))
    result = check_model(right, wrong, right, inputs=[positive])
    assert (result.outcome, result.runs) == (Outcome.PROVED, 1)
    result = check_model(right, wrong, right, inputs=[positive, str(signed)])
    assert (result.outcome, result.runs) == (Outcome.FAILED, 2)
    assert result.reason == (f"Output 'y' differs by 1 (limit 2.1e-05, values up to 1) on the inputs from {signed}.")


def test_arrays_are_inputs_as_they_are() -> None:
    """One set by itself, or several; a fault is told of the set that shows it."""
    right, wrong = body("y = Relu(x)"), body("y = Abs(x)")
    positive, signed = ({"x": np.linspace(low, 1, 16, dtype=np.float32).reshape(2, 8)} for low in (0.1, -1))
    result = surgeon.compare(right, wrong, inputs=positive)
    assert (result.outcome, result.runs, result.kinds) == (Outcome.PROVED, 1, ())
    result = surgeon.compare(right, wrong, inputs=[positive, signed])
    assert result.reason.endswith(" on the inputs from inputs[1].")
    with pytest.raises(UsageError, match="'x' is float64 in inputs\\[0\\], but the model expects float32"):
        surgeon.compare(right, right, inputs={"x": np.ones((2, 8))})
    options = CheckOptions(inputs=positive)
    made, report = surgeon.rewrite(body("y = Relu(x)"), "cleanup", check="model", options=options)
    assert report.outcome == "unchanged"


def test_folders_are_searched_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """Ten comes behind nine; other files are passed over."""
    for number in (10, 9, 1):
        npz(tmp_path / f"set{number}.npz", **fitting(ids=np.array([number, 0])))
    (tmp_path / "readme.txt").write_text("no arrays")
    found = read_inputs(TWO, [tmp_path])
    assert [Path(given.source).name for given in found] == ["set1.npz", "set9.npz", "set10.npz"]
    assert [int(given.arrays["ids"][0]) for given in found] == [1, 9, 10]


@pytest.mark.parametrize("named", [True, False])
def test_onnx_test_data_are_read(tmp_path: Path, named: bool) -> None:
    """A folder of input_0.pb, input_1.pb, or a model's folder with test_data_set_0, ...; by name, else in order."""
    for number in range(2):
        folder = tmp_path / f"test_data_set_{number}"
        folder.mkdir()
        for place, (name, array) in enumerate(fitting(ids=np.array([number, 7])).items()):
            tensor = numpy_helper.from_array(array, name if named else "")
            (folder / f"input_{place}.pb").write_bytes(tensor.SerializeToString())
        (folder / "output_0.pb").write_bytes(b"")
    found = read_inputs(TWO, [tmp_path])
    assert [given.arrays["ids"].tolist() for given in found] == [[0, 7], [1, 7]]
    [one] = read_inputs(TWO, [tmp_path / "test_data_set_1"])
    assert one.arrays["ids"].tolist() == [1, 7]
    assert check_model(TWO, TWO, TWO, inputs=[tmp_path]).outcome is Outcome.PROVED


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (fitting(ids=None), "{p} has no array for input 'ids'. Inputs of the model: 'x', 'ids'."),
        (fitting(z=1), "Array 'z' in {p} is not an input of the model. Inputs of the model: 'x', 'ids'."),
        (
            fitting(x=np.ones((2, 3))),
            "Input 'x' is float64 in {p}, but the model expects float32. Convert the array.",
        ),
        (
            fitting(ids=np.arange(2, dtype=np.int32)),
            "Input 'ids' is int32 in {p}, but the model expects int64. Convert the array.",
        ),
        (
            fitting(x=np.ones((2, 4), np.float32)),
            "Input 'x' has shape [2, 4] in {p}, but the model expects [b, 3].",
        ),
        (
            fitting(x=np.ones(3, np.float32)),
            "Input 'x' has shape [3] in {p}, but the model expects [b, 3].",
        ),
        (
            fitting(ids=np.zeros((), np.int64)),
            "Input 'ids' has shape [] in {p}, but the model expects [b].",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    """Before anything runs, in one sentence."""
    path = npz(tmp_path / "in.npz", **arrays)
    with pytest.raises(UsageError) as refused:
        ModelCheck(Path("absent.onnx"), TWO, CheckOptions(inputs=[path]))
    assert str(refused.value) == message.format(p=path)


def test_files_that_hold_no_inputs_are_refused(tmp_path: Path) -> None:
    """Missing, empty, no arrays, a single array, a folder of nothing, and data that are no tensors."""
    text, single, empty = tmp_path / "t.npz", tmp_path / "single.npz", tmp_path / "empty"
    text.write_text("no arrays")
    with single.open("wb") as file:
        np.save(file, np.ones(3))
    empty.mkdir()
    data = tmp_path / "data"
    data.mkdir()
    (data / "input_0.pb").write_bytes(b"\xff\xff")
    missing = tmp_path / "none.npz"
    for path, message in (
        (missing, f"No inputs found at {missing}. Give an .npz file or a folder of .npz files."),
        (single, f"{single} contains a single array without a name. Save it with numpy.savez."),
        (empty, f"Folder {empty} contains neither .npz files nor ONNX test data (input_0.pb)."),
        (data, f"{data / 'input_0.pb'} cannot be read as a tensor. Write it with onnx.save_tensor."),
    ):
        with pytest.raises(UsageError) as refused:
            read_inputs(TWO, [path])
        assert str(refused.value) == message
    for content in (b"no arrays", b"", b"PK\x03\x04 cut off"):
        text.write_bytes(content)
        with pytest.raises(UsageError) as raised:
            read_inputs(TWO, [text])
        assert str(raised.value) == f"{text} is not an .npz file. Save the arrays with numpy.savez."
    whole = npz(tmp_path / "whole.npz", **fitting())
    text.write_bytes(whole.read_bytes().replace(b"NUMPY", b"BUMPY"))
    np.savez(tmp_path / "objects.npz", x=np.array([{}], object))
    for path in (text, tmp_path / "objects.npz"):
        with pytest.raises(UsageError, match=r"^.*\.npz cannot be read as \.npz \(.*\)\. Save the arrays") as error:
            read_inputs(TWO, [path])
        assert "\n" not in str(error.value)


def test_sizes_beside_inputs_are_refused(tmp_path: Path) -> None:
    """They would be ignored."""
    path = npz(tmp_path / "in.npz", **fitting())
    with pytest.raises(UsageError) as refused:
        ModelCheck(TWO, TWO, CheckOptions(inputs=[path], dims={"b": 2}))
    assert str(refused.value) == "--inputs and --dim cannot be combined, because the input data already has sizes."


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "double", "bool", "uint8", "string"])
def test_dtypes_pass_through_a_file(tmp_path: Path, kind: str) -> None:
    """Also those that numpy writes as plain bytes, big-endian numbers and text."""
    model = read(f"g ({kind}[n, 2] x) => ({kind}[n, 2] y) {{ y = Identity(x) }}")
    values: dict[str, np.ndarray] = {
        "bfloat16": np.array([[1, -2.5]], ml_dtypes.bfloat16),
        "float16": np.array([[1, -2.5]], ">f2"),
        "double": np.array([[1, -2.5]], ">f8"),
        "bool": np.array([[True, False]]),
        "uint8": np.array([[1, 255]], np.uint8),
        "string": np.array([["one", "zwölf"]]),
    }
    [given] = read_inputs(model, [npz(tmp_path / "in.npz", x=values[kind])])
    assert np.array_equal(given.arrays["x"], values[kind])
    result = check_model(model, model, model, inputs=[tmp_path / "in.npz"])
    assert result.outcome is Outcome.PROVED, result.reason


def test_scalars_and_empty_arrays_keep_their_shape(tmp_path: Path) -> None:
    """0-d stays 0-d."""
    model = read("g (float s, float[n] x) => (float[n] y) { y = Mul(s, x) }")
    path = npz(tmp_path / "in.npz", s=np.float32(2), x=np.zeros(0, np.float32))
    [given] = read_inputs(model, [path])
    assert (given.arrays["s"].shape, given.arrays["x"].shape) == ((), (0,))
    result = check_model(model, model, model, inputs=[path])
    assert result.reason == "No output can show a difference: 'y' is empty in the original."


def test_an_input_with_an_initializer_may_be_given_or_not(tmp_path: Path) -> None:
    """It has a value of its own, which the user may replace."""
    model = read("g (float[2] x, float[2] w) => (float[2] y) { y = Mul(x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    doubled = ModelProto()
    doubled.CopyFrom(model)
    doubled.graph.node[0].op_type = "Add"
    x = np.array([2, 3], np.float32)
    without = npz(tmp_path / "without.npz", x=x)
    with_it = npz(tmp_path / "with.npz", x=x, w=np.array([2, 1.5], np.float32))
    assert check_model(model, doubled, model, inputs=[without]).outcome is Outcome.FAILED
    result = check_model(model, doubled, model, inputs=[with_it])
    assert result.outcome is Outcome.PROVED, "2 * 2 is 2 + 2, and 3 * 1.5 is 3 + 1.5"


def test_inputs_that_the_original_refuses_leave_it_unproved(tmp_path: Path) -> None:
    """The sentence names the set; a difference on another set still is one."""
    model = read("g (int64[n] ids) => (float[n] y) <float[3] t = {5, 6, 7}> { y = Gather(t, ids) }")
    wrong = read("g (int64[n] ids) => (float[n] y) <float[3] t = {5, 6, 8}> { y = Gather(t, ids) }")
    good, bad = npz(tmp_path / "good.npz", ids=np.arange(3)), npz(tmp_path / "bad.npz", ids=np.array([9]))
    for inputs in ([bad], [good, bad]):
        result = check_model(model, model, model, inputs=inputs)
        assert result.outcome is Outcome.UNPROVED
        assert result.reason.startswith(f"The original does not run on the inputs from {bad}: ")
    assert check_model(model, wrong, model, inputs=[good, bad]).outcome is Outcome.FAILED


def test_inputs_that_only_the_rewritten_model_refuses_fail(tmp_path: Path) -> None:
    """And the set is named."""
    right, wrong = body("y = Relu(x)"), body("s = Constant<value_ints = [2, 8]>() r = Reshape(x, s) y = Relu(r)")
    path = npz(tmp_path / "three.npz", x=np.ones((3, 8), np.float32))
    result = check_model(right, wrong, right, inputs=[path])
    assert result.outcome is Outcome.FAILED
    assert result.reason.startswith(f"The original runs on the inputs from {path}, but the rewritten model does not: ")


def test_a_sequence_cannot_be_given(tmp_path: Path) -> None:
    """An array is none."""
    model = read("g (seq(float[2]) x, int64 i) => (float[2] y) { y = SequenceAt(x, i) }")
    path = npz(tmp_path / "in.npz", x=np.ones(2, np.float32), i=np.int64(0))
    with pytest.raises(
        UsageError, match=r"^Input 'x' is not a tensor, so .*in\.npz cannot provide it\. Leave out the inputs\.$"
    ):
        read_inputs(model, [path])


def test_a_model_of_one_input_and_one_of_none(tmp_path: Path) -> None:
    """The sentences count."""
    path = npz(tmp_path / "in.npz", q=np.ones(2))
    for text, reported in (("float[2] x", "Input of the model: 'x'"), ("", "The model has no inputs")):
        model = read(f"g ({text}) => (float[2] y) <float[2] c = {{1, 2}}> {{ y = Neg(c) }}")
        with pytest.raises(UsageError) as refused:
            read_inputs(model, [path])
        assert str(refused.value) == f"Array 'q' in {path} is not an input of the model. {reported}."
