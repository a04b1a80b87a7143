"""Models that TensorRT builds for some sizes only: the commands that are printed work."""

import shlex

import onnx
import pytest

from surgeon.file.model import Model
from surgeon.runtime.tensorrt.compatibility import profiles_of
from tests.command_line import run
from tests.patterns.tensorrt import library

WIDE = 40  # of a window, of which nothing is left of the usual sizes
HEADER = '<ir_version: 9, opset_import: ["" : 17]> g'
MODELS = {
    "a window over a signal": f"{HEADER} (float[1, 1, sequence] x) => (float[1, 1, m] y) <float[1, 1, {WIDE}] w = "
    f"{{{', '.join(['1'] * WIDE)}}}> {{ y = Conv(x, w) }}",
    "the largest of a window": f"{HEADER} (float[1, 1, sequence] x) => (float[1, 1, m] y) "
    f"{{ y = MaxPool<kernel_shape = [{WIDE}]>(x) }}",
    "the mean of a window, and a batch": f"{HEADER} (float[batch, 1, sequence] x) => (float[batch, 1, m] y) "
    f"{{ y = AveragePool<kernel_shape = [{WIDE}]>(x) }}",
}


@pytest.mark.skipif(library() is None, reason="TensorRT-RTX is not installed")
@pytest.mark.parametrize("title", MODELS)
def test_the_printed_commands_work(title, tmp_path):
    model, fixed = tmp_path / "model.onnx", tmp_path / "fixed.onnx"
    onnx.save(onnx.parser.parse_model(MODELS[title]), model)
    rewritten = run("rewrite", str(model), str(fixed), "--rules", "cleanup", "--target", "tensorrt")
    (build,) = [line.partition(": surgeon ")[2] for line in rewritten.stdout.splitlines() if line.endswith("--build")]
    result = run(*(str(fixed) if word == "OUT" else word for word in shlex.split(build)))
    commands = [line.partition(": surgeon ")[2] for line in result.stdout.splitlines() if "--dim sequence=" in line]
    assert [shlex.split(text)[0] for text in commands] == ["check", "edit"]
    for text in commands:
        words = [{"IN": str(model), "OUT": str(fixed)}.get(word, word) for word in shlex.split(text)]
        done = run(*words)
        assert done.exit_code == 0, done.output
        assert "not built" not in done.output
    sizes = [size.dim_param for size in onnx.load(fixed).graph.input[0].type.tensor_type.shape.dim]
    assert "sequence" not in sizes


TENTHS = {count: f"{{{', '.join(['0.1'] * count)}}}" for count in (12, 18)}
ONES = {
    "states of one sample": "(float[s, batch, 3] x, float[1, 1, 2] h, float[batch, 4] v) => "
    f"(float[1, 1, 2] u, float[4] y) <float[1, 6, 3] w = {TENTHS[18]}, float[1, 6, 2] r = {TENTHS[12]}> "
    '{ t, u = GRU<hidden_size = 2>(x, w, r, "", "", h) y = Squeeze(v) }',
    "a row beside rows": "(float[batch, 4] x, float[1, 4] k) => (float[1, 8] c, float[4] y) "
    "{ c = Concat<axis = 1>(x, k) y = Squeeze(x) }",
    "a table beside tables": "(float[batch, 3, 4] x, float[1, 3, 2] k) => (float[1, 3, 6] c, float[3, 4] y) "
    "{ c = Concat<axis = 2>(k, x) y = Squeeze(x) }",
}


@pytest.mark.skipif(library() is None, reason="TensorRT-RTX is not installed")
@pytest.mark.parametrize("title", ONES)
def test_a_size_that_is_1_in_all_that_run_is_fixed_by_the_printed_command(title, tmp_path):
    model, fixed = tmp_path / "model.onnx", tmp_path / "fixed.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> g {ONES[title]}'), model)
    reported = run("check", str(model), "--target", "tensorrt", "--build").stdout.splitlines()
    (text,) = [line.partition(": surgeon ")[2] for line in reported if "surgeon edit" in line]
    assert "batch=1" in text
    done = run(*({"IN": str(model), "OUT": str(fixed)}.get(word, word) for word in shlex.split(text)))
    assert done.exit_code == 0, done.output
    built = run("check", str(fixed), "--target", "tensorrt", "--build")
    assert built.exit_code == 0, built.output


TWO_NAMES = {
    "states": "(float[s, batch, 3] x, float[1, c, 2] h, float[1, 6, 3] w, float[1, 6, 2] r) => (float[1, batch, 2] y) "
    '{ t, y = GRU<hidden_size = 2>(x, w, r, "", "", h) }',
    "a sum": "(float[4, batch] x, float[4, c] h) => (float[4, batch] y) { y = Add(x, h) }",
    "rows": "(float[4, batch] x, float[2, c] h) => (float[6, batch] y) { y = Concat<axis = 0>(x, h) }",
    "a product": "(float[3, batch] x, float[c, 4] h) => (float[3, 4] y) { y = MatMul(x, h) }",
}


@pytest.mark.parametrize("title", TWO_NAMES)
def test_sizes_that_fit_one_another_come_before_others(title):
    """Where the first ones are refused, what is printed is to run under ONNX Runtime too."""
    made = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> g {TWO_NAMES[title]}')
    with Model.open(made) as opened:
        _, (_, sizes), *_ = profiles_of(opened, {})
    assert sizes["batch"] == sizes["c"]
