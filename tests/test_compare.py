"""Two files held against each other: surgeon.proof.compare and `surgeon compare`."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import Result
from onnx import ModelProto, numpy_helper

from surgeon.cli.command_group import CommandGroup
from surgeon.cli.commands.compare import compare as command
from surgeon.errors import ModelFileError, UsageError
from surgeon.proof.check_result import Outcome
from surgeon.proof.compare import compare
from tests.command_line import one_sentence, result_in, runner
from tests.command_line import run as typed
from tests.test_model_check import ERF, FUSED, TANH, body, gelu, read

PAIR = "g (float[b, 3] x, int64[b] ids) => (float[b, 3] y, float[b] z) {{ y = Relu(x) f = Cast<to = 1>(ids) z = {z} }}"


def save(path: Path, model: ModelProto) -> Path:
    """The model as a file."""
    path.write_bytes(model.SerializeToString())
    return path


def run(*arguments: object) -> Result:
    """Run the command as the shell would."""
    group = CommandGroup("surgeon")
    group.add_command(command)
    return runner().invoke(group, ["compare", *map(str, arguments)])


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A GELU of primitive ops, the fused one, and one of the tanh form."""
    forms = {"a": ERF, "b": FUSED, "c": TANH}
    a, b, c = (save(tmp_path / f"{name}.onnx", gelu(form)) for name, form in forms.items())
    return a, b, c


def test_files_of_one_name_are_shown_with_their_folders(files: tuple[Path, Path, Path]) -> None:
    (files[0].parent / "new").mkdir()
    other = files[1].rename(files[0].parent / "new" / files[0].name)
    assert run(files[0], other).stdout.startswith(f"{files[0]} and {other}  ")


def test_paths_and_models_in_memory_compare(files: tuple[Path, Path, Path]) -> None:
    """All four ways, with numbers."""
    a, b, c = files
    for one, another in ((a, b), (str(a), onnx.load(b)), (onnx.load(a), b), (onnx.load(a), onnx.load(b))):
        result = compare(one, another)
        assert result.outcome is Outcome.PROVED
        assert result.runs == 12
        assert result.seconds > 0
    result = compare(a, c)
    assert result.outcome is Outcome.FAILED
    assert result.reason.startswith("Output 'y' differs by 0.000")
    assert compare(a, c, rtol=1e-3, atol=1e-3).outcome is Outcome.PROVED
    assert compare(a, b, dims={"batch": 7}, seed=3).outcome is Outcome.PROVED


def test_order_does_not_matter() -> None:
    """Inputs and outputs are held together by their names, and told apart by them."""
    model = read(PAIR.format(z="Neg(f)"))
    other = ModelProto()
    other.CopyFrom(model)
    for values in (other.graph.input, other.graph.output):
        values.reverse()
    assert [value.name for value in other.graph.output] == ["z", "y"]
    assert compare(model, other).outcome is Outcome.PROVED
    other.graph.node[2].op_type = "Abs"
    result = compare(model, other)
    assert result.outcome is Outcome.FAILED
    assert result.reason.startswith("Output 'z' differs")


ONE = "g (float[b, 3] x) => (float[b, 3] y) { y = Relu(x) }"


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ("g (float[b, 3] w) => (float[b, 3] y) { y = Relu(w) }",
         "input 'x' exists only in the original; input 'w' exists only in the other model"),
        ("g (float[b, 3] x, float p, float q) => (float[b, 3] y) { y = Relu(x) }",
         "inputs 'p', 'q' exist only in the other model"),
        ("g (float[b, 3] x) => (float[b, 3] y, float[b, 3] v) { y = Relu(x) v = Neg(x) }",
         "output 'v' exists only in the other model"),
        ("g (double[b, 3] x) => (double[b, 3] y) { y = Relu(x) }",
         "input 'x' is float in the original and double in the other model"),
        ("g (seq(float[3]) x) => (float[b, 3] y) { y = ConcatFromSequence<axis = 0>(x) }",
         "input 'x' is float in the original and a sequence in the other model"),
        ("g (float[c, d, 3] x) => (float[c, d, 3] y) { y = Relu(x) }",
         "input 'x' has the shape [b, 3] in the original and [c, d, 3] in the other model"),
        ("g (float[c, 4] x) => (float[c, 4] y) { y = Relu(x) }",
         "input 'x' has the shape [b, 3] in the original and [c, 4] in the other model"),
    ],
)  # fmt: skip
def test_interfaces_that_differ_are_reported(other: str, reason: str) -> None:
    """By name, dtype and shape, all differences in one sentence; nothing is run."""
    result = compare(read(ONE), read(other))
    assert (result.outcome, result.runs, result.outputs) == (Outcome.FAILED, 0, ())
    assert result.reason == f"The interfaces differ: {reason}."


def test_a_dimension_that_the_other_model_fixes() -> None:
    """It is compared at that size, and the reason says so; the other way round needs no word."""
    free, fixed = read(ONE), read(ONE.replace("b, 3", "4, 3"))
    result = compare(free, fixed)
    assert result.outcome is Outcome.PROVED
    assert result.reason == "Compared only at b = 4, because the other model fixes these sizes."
    assert compare(fixed, free).reason == ""
    result = compare(free, fixed, dims={"b": 2})
    assert result.outcome is Outcome.FAILED
    assert result.reason.startswith("The original runs, but the other model does not: ")


def test_a_difference_in_what_is_answered() -> None:
    """Dtype and shape of outputs are those of the answers."""
    cast = read("g (float[b, 3] x) => (double[b, 3] y) { r = Relu(x) y = Cast<to = 11>(r) }")
    assert compare(read(ONE), cast).reason == "Output 'y' is float64, but float32 in the original on usual inputs."


def test_several_dynamic_axes_and_integers(tmp_path: Path) -> None:
    """Three sizes of two axes: a wrong one that shows only where they differ is found."""
    text = """g (int32[batch, seq] x) => (int32[n, m] y) {{ t = Transpose(x) {rest} }}"""
    right = read(text.format(rest="y = Identity(t)"))
    wrong = read(text.format(rest="s = Shape(x) y = Reshape(t, s)"))
    assert compare(right, right).outcome is Outcome.PROVED
    result = compare(right, wrong)
    assert result.outcome is Outcome.FAILED
    assert result.reason == "Output 'y' has shape [2, 5], but [5, 2] in the original on usual inputs."


NUMBERS = {"zero": 0, "one": 1, "first": [0], "axis": [1], "last": [64]}
ENTRY = "g (int64[b, s] position_ids, float[b, s, 8] x) => (float[b, s, 8] y) "


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        pytest.param(
            ENTRY + "{ p = Gather(table, position_ids) y = Add(x, p) }",
            ENTRY + "{ n = Shape<start = 1, end = 2>(x) k = Squeeze(n) r = Range(zero, k, one) p = Gather(table, r) "
            "y = Add(x, p) }",
            id="positions that go on behind others",
        ),
        pytest.param(
            "g (float[b, seq, 16] x) => (float[b, k, 16] y) { y = Relu(x) }",
            "g (float[b, seq, 16] x) => (float[b, k, 16] y) { t = Slice(x, first, last, axis) y = Relu(t) }",
            id="texts of more than 64 words",
        ),
        pytest.param(
            "g (float[b, 3, height, width] x) => (float[b, 3, u, v] y) "
            "{ y = MaxPool<kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1>(x) }",
            "g (float[b, 3, height, width] x) => (float[b, 3, u, v] y) "
            "{ y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x) }",
            id="pictures of odd sizes",
        ),
    ],
)
def test_what_only_other_inputs_tell_apart(right: str, wrong: str) -> None:
    """Each model is equal to itself; what an export cut off, or took for granted, is a difference."""
    models = [read(right), read(wrong)]
    for model in models:
        table = np.random.default_rng(0).standard_normal((1000, 8)).astype(np.float32)
        numbers = (numpy_helper.from_array(np.array(value), name) for name, value in NUMBERS.items())
        model.graph.initializer.extend([numpy_helper.from_array(table, "table"), *numbers])
    assert compare(models[0], models[0]).outcome is Outcome.PROVED
    assert compare(*models).outcome is Outcome.FAILED


def test_large_weights_and_data_files(tmp_path: Path) -> None:
    """The same model as one file and as two, and one weight changed."""
    model = read("g (float[b, 64] x) => (float[b, 64] y) { h = MatMul(x, w) y = Relu(h) }")
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    one = save(tmp_path / "one.onnx", model)
    two = tmp_path / "two.onnx"
    copy = ModelProto()
    copy.CopyFrom(model)
    onnx.save(copy, two, save_as_external_data=True, location="two.data", size_threshold=0)
    for pair in ((one, two), (two, one)):
        result = compare(*pair, layers=True)
        assert result.outcome is Outcome.PROVED
        assert result.layers is not None
        assert result.layers.compared == 2
    data = bytearray((tmp_path / "two.data").read_bytes())
    data[:4] = np.float32(9).tobytes()
    (tmp_path / "two.data").write_bytes(data)
    result = compare(one, two, layers=True)
    assert result.outcome is Outcome.FAILED
    assert result.first_different == "h"
    (tmp_path / "two.data").unlink()
    with pytest.raises(ModelFileError, match=r"two\.data"):
        compare(one, two)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.onnx", "two.onnx"]


@pytest.mark.parametrize(
    "options",
    [{"seed": -1}, {"dims": {"none": 1}}, {"rtol": -1.0}, {"inputs": ["none.npz"]}, {"custom_ops": ["no.so"]}],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    """As everywhere."""
    with pytest.raises(UsageError):
        compare(body("y = Relu(x)"), body("y = Relu(x)"), **options)


def test_equal_files_print_and_leave_with_0(files: tuple[Path, Path, Path]) -> None:
    """The error of each output, the outcome, the time."""
    a, b, _ = files
    shown = run(a, b, "--dim", "batch=3", "--seed", 2)
    assert shown.exit_code == 0, shown.output
    first, outcome = shown.stdout.splitlines()
    assert first.startswith(f"{a.name} and {b.name}  ")
    assert first.endswith(" sets of inputs under ONNX Runtime")
    assert outcome.startswith("PROVED   1 of 1 output agrees")
    shown = run(a, b, "--dim", "batch=3", "--seed", 2, "-v")
    lines = shown.stdout.splitlines()
    assert lines[1].split() == ["output", "dtype", "max", "abs", "max", "rel", "allowed"]
    assert lines[2].split()[:2] == ["y", "float32"]
    kinds = "usual, numbers that decide, wide-ranging numbers, rows of zeros and small rows, inputs that hold NaN or "
    kinds += "infinity"
    assert f"tried      {kinds}; 1 set of sizes (3 to 3)\n             not covered: values" in shown.stdout
    assert "layers" not in shown.stdout
    assert shown.stderr == ""


def test_different_files_leave_with_1(files: tuple[Path, Path, Path]) -> None:
    """With the reason; tolerances pass through."""
    a, _, c = files
    shown = run(a, c)
    assert shown.exit_code == 1
    first, outcome, why, differs = shown.stdout.splitlines()
    assert first.endswith("  12 sets of inputs under ONNX Runtime")
    assert outcome == "FAILED   0 of 1 output agrees"
    assert why.startswith("why      Output 'y' differs by 0.000")
    assert differs.startswith("differs  y (float32): error 0.000")
    assert run(a, c, "--rtol", "1e-3", "--atol", "1e-3").exit_code == 0


def test_what_cannot_be_reported_leaves_with_1(tmp_path: Path) -> None:
    """Neither equal nor different."""
    path = save(tmp_path / "m.onnx", body("y = mylib.Placeholder(x)"))
    shown = run(path, path)
    assert shown.exit_code == 1
    assert "UNPROVED ONNX Runtime does not load the original: " in shown.stdout


def test_bad_input_leaves_with_2(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """One sentence on the error stream."""
    a, b, _ = files
    assert "none.onnx" in one_sentence(run(a, tmp_path / "none.onnx"), 2)
    assert "none.onnx" in one_sentence(run(tmp_path / "none.onnx", a), 2)
    assert one_sentence(run(a, b, "--dim", "seq=3"), 2) == (
        "Error: No input has a dynamic dimension 'seq'; there are 'batch'."
    )
    assert run(a, b, "--dim", "seq").exit_code == 2
    np.savez(tmp_path / "in.npz", z=np.ones(2))
    assert one_sentence(run(a, b, "--inputs", tmp_path / "in.npz"), 2) == (
        f"Error: Array 'z' in {tmp_path / 'in.npz'} is not an input of the model. Input of the model: 'x'."
    )


def test_inputs_from_files(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """Each set is one run."""
    a, b, _ = files
    for number in range(3):
        np.savez(tmp_path / f"in{number}.npz", x=np.random.default_rng(number).standard_normal((2, 64), np.float32))
    shown = run(a, b, "--inputs", tmp_path / "in0.npz", "--inputs", tmp_path / "in1.npz")
    assert "  2 sets of inputs under ONNX Runtime\nPROVED " in shown.stdout


def test_layers_are_printed(tmp_path: Path) -> None:
    """The worst few in a table, and the first by name."""
    right = save(tmp_path / "r.onnx", body("a = Relu(x) s = Neg(a) y = Add(s, x)"))
    wrong = save(tmp_path / "w.onnx", body("a = Abs(x) s = Neg(a) y = Add(s, x)"))
    shown = run(right, wrong, "--compare-layers", "-v")
    assert shown.exit_code == 1
    assert "layers   the first tensor outside the tolerance is 'a' (3 compared)" in shown.stdout
    table = shown.stdout[shown.stdout.index("worst layers") :].splitlines()
    assert [line.split()[0] for line in table[1:4]] == ["a", "s", "y"]
    shown = run(right, right, "--compare-layers")
    assert "layers   3 tensors of the same name compared, none leaves tolerance" in shown.stdout


def test_json_has_everything(files: tuple[Path, Path, Path]) -> None:
    """On standard output, alone; with the same exit code."""
    a, b, c = files
    shown = run(a, b, "--json", "--compare-layers")
    found = result_in(shown.stdout)
    assert shown.exit_code == 0
    assert (found["original"], found["other"], found["outcome"]) == (str(a), str(b), "proved")
    assert found["layers"]["compared"] == 1
    shown = run(a, c, "--json")
    assert shown.exit_code == 1
    assert result_in(shown.stdout)["worst"] == "y"


def test_the_help_names_the_exit_codes() -> None:
    """They are part of the interface."""
    shown = run("--help")
    assert "Exit codes: 0 equal within tolerance, 1 different" in " ".join(shown.stdout.split())


def test_importing_it_is_light() -> None:
    """The library function loads what it runs with when it runs."""
    heavy = "{'onnxruntime', 'surgeon.proof.model.model_check'}"
    code = f"import sys, surgeon.proof.compare; print({heavy} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


def test_a_comparison_is_true_where_it_is_proved(tmp_path):
    """So that an assert says what it means, and one path by itself is a list of one."""
    import numpy as np

    import surgeon
    from surgeon.testing import parse

    model = parse("(float[n] x) => (float[n] y) { y = Relu(x) }")
    np.savez(tmp_path / "in.npz", x=np.array([1.0, -1.0], np.float32))
    assert surgeon.compare(model, model, inputs=str(tmp_path / "in.npz"))
    assert not surgeon.compare(model, parse("(float[n] x) => (float[n] y) { y = Neg(x) }"))
    assert surgeon.CheckOptions(inputs="in.npz").inputs == ("in.npz",)


PARTS = {
    "maps of a classifier": ("seq(map(int64, float)) p", "p = ai.onnx.ml.ZipMap<classlabels_int64s = [0, 1, 2]>(x)"),
    "maps with names": ("seq(map(string, float)) p", 'p = ai.onnx.ml.ZipMap<classlabels_strings = ["a", "b", "c"]>(x)'),
    "a sequence of tensors": ("seq(float[m, 3]) p", "p = SplitToSequence<axis = 0>(x)"),
}


@pytest.mark.parametrize("case", PARTS)
def test_a_sequence_or_a_map_is_one_row(tmp_path, case):
    """On the screen and on a page; the part that differs most is named, and JSON has all of them."""
    kind, body = PARTS[case]
    files = []
    for name, factor in (("a", 1), ("b", 2)):
        nodes = f"x = Mul(u, k) {body} q = Neg(u)"
        text = f"(float[n, 3] u) => ({kind}, float[n, 3] q) <float k = {{{factor}}}> {{ {nodes} }}"
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1]> g {text}')
        files.append(tmp_path / f"{name}.onnx")
        onnx.save(model, files[-1])
    same, other = (typed("compare", files[0], file, "-v").stdout for file in files)
    for said in (same, other):
        rows = said.partition("\n\n")[0].splitlines()[2:]
        assert sorted(row.split()[0] for row in rows if row[:1].strip()) == ["p", "q"]
    assert "differs" in other.partition("\n\n")[0].splitlines()[2]
    found = compare(*files)
    assert len(found.outputs) > 4
    assert "worst p[" in found._repr_html_()
    assert "keys(" not in found._repr_html_()
