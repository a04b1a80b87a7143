"""Inner tensors: which is the first to leave tolerance, and what one run shows of them."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, numpy_helper

from surgeon.errors import ModelFileError, UsageError
from surgeon.file.model import Model
from surgeon.proof.check_result import CheckResult, Outcome
from surgeon.proof.model import exposed_outputs, layer_comparison
from surgeon.proof.model.exposed_outputs import exposing
from surgeon.proof.model.inner_tensors import run_inner_tensors
from surgeon.runtime.sessions.ort_session import OrtSession
from tests.models import check_model
from tests.test_model_check import body, read

STEPS = "a = Relu(x) b = {op}<{attribute}>(a) c = Abs(b) d = Shape(c) e = Add(c, x) y = Sigmoid(e)"
RIGHT = body(STEPS.format(op="LeakyRelu", attribute="alpha = 0.5"))
WRONG = body(STEPS.format(op="Elu", attribute="alpha = 0.5").replace("Relu(x)", "Abs(x)"))


def check(original: ModelProto, rewritten: ModelProto) -> CheckResult:
    """Check two models in memory, layers too."""
    return check_model(original, rewritten, original, layers=True)


def weighty(seed: int, *, wrong: bool = False) -> ModelProto:
    """x times two matrices of 16 KiB each; the second one may be another."""
    model = read("g (float[b, 64] x) => (float[b, 64] y) { h = MatMul(x, w1) r = Relu(h) y = MatMul(r, w2) }")
    random = np.random.default_rng(seed)
    for name in ("w1", "w2"):
        value = random.standard_normal((64, 64)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(value * (2 if wrong and name == "w2" else 1), name))
    return model


def external(folder: Path, model: ModelProto) -> Path:
    """The model as a file with its weights in a file of their own."""
    folder.mkdir()
    copy = ModelProto()
    copy.CopyFrom(model)
    onnx.save(copy, folder / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    return folder / "m.onnx"


def inline(folder: Path, model: ModelProto) -> Path:
    """The model as one file."""
    folder.mkdir()
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder / "m.onnx"


def check_files(original: Path, rewritten: Path) -> CheckResult:
    """Check two files, layers too."""
    with Model.open(original) as model:
        return check_model(original, rewritten, model.skeleton, layers=True)


def test_the_first_tensor_that_leaves_tolerance_is_named() -> None:
    """Not the output, where the fault is seen last."""
    result = check(RIGHT, WRONG)
    assert result.outcome is Outcome.FAILED
    assert result.first_different == "a"
    assert result.layers is not None
    assert result.layers.compared == 6
    assert [error.name for error in result.layers.errors] == ["a", "b", "c", "d", "e", "y"]
    assert {error.name for error in result.layers.errors if error.ok} == {"d"}


def test_equal_models_differ_nowhere() -> None:
    """All of the same name are compared: floats, integers and booleans."""
    model = body("a = Relu(x) s = Shape(a) l = Less(a, x) w = Where(l, x, a) y = Neg(w)")
    result = check(model, model)
    assert result.outcome is Outcome.PROVED
    assert result.first_different == ""
    assert result.layers is not None
    assert (result.layers.compared, result.layers.left_out) == (5, "")
    assert {error.dtype for error in result.layers.errors} == {"float32", "int64", "bool"}
    assert all(error.ok for error in result.layers.errors)


def test_layers_are_compared_only_when_asked_for() -> None:
    """And not where the rewritten model does not run."""
    assert check_model(RIGHT, WRONG, RIGHT).layers is None
    assert check(RIGHT, body("y = mylib.Placeholder(x)")).layers is None


def test_a_layer_may_differ_where_no_output_does() -> None:
    """The outputs decide; the layer is told."""
    result = check(body("a = Neg(x) y = Abs(a)"), body("a = Relu(x) b = Abs(x) y = Identity(b)"))
    assert result.outcome is Outcome.PROVED
    assert result.first_different == "a"


def test_tensors_of_a_rewritten_region_are_passed_over() -> None:
    """What exists in one model alone is not compared; other names around it are."""
    fused = body("a = Relu(x) c = Mul(a, a) y = Neg(c)")
    result = check(body("a = Relu(x) two = Constant<value_float = 2.0>() c = Pow(a, two) y = Neg(c)"), fused)
    assert result.outcome is Outcome.PROVED
    assert result.layers is not None
    assert result.layers.compared == 3


def test_noise_of_the_original_is_no_difference() -> None:
    """sin(300 x) in two spellings: its own last bits explain the difference."""
    spelt = (
        "{m}p = Constant<value_float = {p}>() {m}q = Constant<value_float = {q}>() {m}t = Mul(x, {m}p) "
        "u = Mul({m}t, {m}q) s = Sin(u) y = Tanh(s)"
    )
    result = check(body(spelt.format(p=3.7, q=81.3, m="m")), body(spelt.format(p=81.3, q=3.7, m="n")))
    assert result.outcome is Outcome.PROVED, result.reason
    assert result.first_different == ""


def test_the_result_survives_json() -> None:
    """With infinite errors in it."""
    wrong = body("a = Cast<to = 11>(x) b = Cast<to = 1>(a) y = Relu(b)")
    result = check(body("a = Identity(x) b = Abs(a) y = Relu(b)"), wrong)
    loaded = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert loaded["first_different"] == "a"
    assert loaded["layers"]["compared"] == 3
    assert loaded["layers"]["errors"][0]["max_abs"] == "inf"
    assert loaded["layers"]["left_out"] == ""
    assert check_model(RIGHT, RIGHT, RIGHT).to_dict()["layers"] is None


@pytest.mark.parametrize("save", [inline, external])
def test_files_keep_their_weights_where_they_are(tmp_path: Path, save: Callable[[Path, ModelProto], Path]) -> None:
    """Large weights, inline or in files beside the model; nothing is left behind and nothing changed."""
    right, wrong = save(tmp_path / "a", weighty(0)), save(tmp_path / "b", weighty(0, wrong=True))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    same = check_files(right, right)
    assert same.outcome is Outcome.PROVED
    assert same.layers is not None
    assert (same.layers.compared, same.layers.left_out) == (3, "")
    result = check_files(right, wrong)
    assert result.outcome is Outcome.FAILED
    assert result.first_different == "y"
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_many_tensors_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few at a time, and both models opened anew when memory is full; what lies behind the first part is left."""
    count = 50
    nodes = " ".join(f"t{place + 1} = {{op{place}}}(t{place})" for place in range(count))
    names = {f"op{place}": "Abs" if place % 2 else "Neg" for place in range(count)}
    text = "t0 = Identity(x) " + nodes + f" y = Add(t{count}, x)"
    right, wrong = body(text.format(**names)), body(text.format(**{**names, "op20": "Abs", "op21": "Neg"}))
    monkeypatch.setattr(exposed_outputs, "_AT_FIRST", 4)
    monkeypatch.setattr(exposed_outputs, "HELD_BYTES", 300)  # four tensors and a bit
    monkeypatch.setattr(layer_comparison, "HELD_BYTES", 500)  # less than eight tensors
    result = check(right, right)
    assert result.layers is not None
    assert (result.layers.compared, result.first_different) == (count + 2, "")
    result = check(right, wrong)
    assert result.first_different == "t21"
    assert result.layers is not None
    assert 21 < result.layers.compared < count


def test_sequences_are_passed_over() -> None:
    """Tensors are compared, lists of them are not."""
    model = read("g (float[4] x) => (float[4] y) { s = SequenceConstruct(x, x) y = ConcatFromSequence<axis = 0>(s) }")
    result = check(model, model)
    assert result.layers is not None
    assert result.layers.compared == 1


def test_exposing_leaves_a_model_in_memory_alone() -> None:
    """The outputs are those of a copy."""
    before = RIGHT.SerializeToString()
    with exposing(RIGHT, ["c", "y", "a"]) as model:
        assert isinstance(model, ModelProto)
        assert [value.name for value in model.graph.output] == ["y", "c", "a"]
    assert RIGHT.SerializeToString() == before


def test_the_copy_goes_whatever_happens(tmp_path: Path) -> None:
    """Also on an error inside of the block, which comes out as it is."""
    path = inline(tmp_path / "a", weighty(0))
    with pytest.raises(OSError, match="mine"), exposing(path, ["h"]) as copy:  # noqa: PT012  # the block is the test
        assert isinstance(copy, Path)
        assert copy.parent == path.parent
        with OrtSession(copy) as session:
            assert session.outputs == ("y", "h")
        raise OSError("mine")
    assert [file.name for file in path.parent.iterdir()] == ["m.onnx"]


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of one file is copied elsewhere; one with data files is not compared in layers, and that is said."""
    one, two = inline(tmp_path / "a", weighty(0)), external(tmp_path / "b", weighty(0))

    class Refusing(exposed_outputs.AtomicFile):
        def __enter__(self) -> "Refusing":
            if tmp_path in self.target.parents:
                raise PermissionError(13, "Permission denied")
            super().__enter__()
            return self

    monkeypatch.setattr(exposed_outputs, "AtomicFile", Refusing)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path.parent))
    assert check_files(one, one).to_dict()["layers"]["compared"] == 3
    result = check_files(two, two)
    assert result.outcome is Outcome.PROVED
    assert result.layers is not None
    assert result.layers.left_out == (
        f"The layers cannot be compared: Cannot write a temporary copy next to {two} (Permission denied). "
        "Make this folder writable, with free space."
    )
    with pytest.raises(ModelFileError), exposing(two, ["h"]):
        pass


def test_inner_values_are_those_of_the_model() -> None:
    """Inner tensors, outputs and inputs by name; other names are left out."""
    model = body("a = Relu(x) n = Neg(a) y = Sub(n, x)")
    found = run_inner_tensors(model, model, ["n", "y", "x", "nothing"], seed=3, dims={"b": 5}).values
    assert set(found) == {"n", "y", "x"}
    assert found["x"].shape == (5, 8)
    assert np.array_equal(found["n"], -np.maximum(found["x"], 0))
    assert np.array_equal(found["y"], found["n"] - found["x"])
    assert list(run_inner_tensors(model, model, ["x"]).values) == ["x"]
    with pytest.raises(UsageError, match="'c'"):
        run_inner_tensors(model, model, ["n"], dims={"c": 5})


@pytest.mark.parametrize("save", [inline, external])
def test_only_what_leads_to_the_tensors_is_run(tmp_path: Path, save: Callable[[Path, ModelProto], Path]) -> None:
    """Behind them there may be ops that nobody knows, and data files that are not there."""
    model = weighty(0)
    model.graph.node[2].domain, model.graph.node[2].op_type = "mylib", "Placeholder"
    path = save(tmp_path / "a", model)
    if save is external:
        kept = onnx.load(path, load_external_data=False)
        entries = {entry.key: entry for entry in kept.graph.initializer[1].external_data}
        entries["location"].value = "nowhere.data"
        path.write_bytes(kept.SerializeToString())
    with Model.open(path) as opened:
        found = run_inner_tensors(path, opened.skeleton, ["r", "h"])
        assert found.refusal == ""
        assert found.values["r"].shape[1] == 64
        assert np.array_equal(found.values["r"], np.maximum(found.values["h"], 0))
        lost = run_inner_tensors(path, opened.skeleton, ["y"])
        assert run_inner_tensors(path, opened.skeleton, ["y"]).values == {}
    assert lost.values == {}
    assert lost.refusal.startswith("ONNX Runtime does not load the model: FAIL : ")
    assert [file.name for file in path.parent.iterdir() if file.suffix == ".tmp"] == []


def test_what_loads_is_read_where_not_all_does() -> None:
    """Up to an op that nobody knows; the reason is told."""
    model = body("a = Relu(x) b = Neg(a) c = Abs(b) d = mylib.Placeholder(c) e = Neg(d) y = Add(e, c)")
    found = run_inner_tensors(model, model, ["y", "e", "d", "c", "b", "a", "x"])
    assert set(found.values) == {"x", "a", "b", "c"}
    assert found.refusal.startswith("ONNX Runtime does not load the model: FAIL : Fatal error: mylib:Placeholder")
    assert set(run_inner_tensors(model, model, ["d", "x"]).values) == {"x"}


def test_inputs_that_a_model_refuses_are_followed_by_others() -> None:
    """A fixed product of free dimensions; no reason is left."""
    model = read("g (float[b, k] x) => (float[c, 8] y) { s = Constant<value_ints = [-1, 8]>() y = Reshape(x, s) }")
    found = run_inner_tensors(model, model, ["y"])
    assert found.refusal == ""
    assert found.values["y"].shape[1] == 8


def test_captured_names_are_kept_in_a_trace() -> None:
    """A body of If uses a tensor and a weight from around it."""
    model = read(
        """g (float[4] x, bool c) => (float[4] y) <float[4] w = {1, 2, 3, 4}, float[4] u = {0, 0, 0, 0}> {
        a = Neg(x) z = Add(a, u) i = If (c) <then_branch = t () => (float[4] p) { p = Add(a, w) },
        else_branch = e () => (float[4] q) { q = Sub(a, w) }> y = Relu(i) }"""
    )
    found = run_inner_tensors(model, model, ["i"])
    assert found.refusal == ""
    assert found.values["i"].shape == (4,)


def test_why_there_is_no_trace_is_reported() -> None:
    """Inputs that cannot be made, and a model that refuses them all."""
    model = read("g (seq(float[2]) x, int64 i) => (float[2] y) { y = SequenceAt(x, i) }")
    assert run_inner_tensors(model, model, ["y"]).refusal == (
        "Inputs cannot be generated: input 'x' is a sequence, and surgeon generates only tensors."
    )
    model = body("s = Constant<value_ints = [3, 7]>() r = Reshape(x, s) y = Relu(r)")
    assert run_inner_tensors(model, model, ["r"]).refusal.startswith(
        "The model does not run on the generated inputs: "
    )


def test_past_the_limit_of_memory_shapes_are_kept() -> None:
    """Shape and dtype are right, and no memory is taken."""
    model = body("a = Relu(x) n = Shape(a) y = Neg(a)")
    found = run_inner_tensors(model, model, ["a", "n", "y"], dims={"b": 100}, limit_bytes=3300)
    assert found.shapes_only == {"y"}
    assert found.values["y"].shape == found.values["a"].shape == (100, 8)
    assert found.values["y"].dtype == np.float32
    assert found.values["y"].strides == (0, 0)
    assert found.values["n"].tolist() == [100, 8]


def test_libraries_written_in_python_are_left_to_others() -> None:
    """ONNX Runtime cannot register them."""
    model = body("a = Relu(x) y = Neg(a)")
    assert "a" in run_inner_tensors(model, model, ["a"], custom_ops=["ops.py"]).values
