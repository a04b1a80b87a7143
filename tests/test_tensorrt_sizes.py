"""Models that TensorRT builds for some sizes only: the commands that are printed work."""

import shlex

import onnx
import pytest

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
    told = run(*(str(fixed) if word == "OUT" else word for word in shlex.split(build)))
    commands = [line.partition(": surgeon ")[2] for line in told.stdout.splitlines() if "--dim sequence=" in line]
    assert [shlex.split(text)[0] for text in commands] == ["check", "edit"]
    for text in commands:
        words = [{"IN": str(model), "OUT": str(fixed)}.get(word, word) for word in shlex.split(text)]
        done = run(*words)
        assert done.exit_code == 0, done.output
        assert "not built" not in done.output
    sizes = [size.dim_param for size in onnx.load(fixed).graph.input[0].type.tensor_type.shape.dim]
    assert "sequence" not in sizes
