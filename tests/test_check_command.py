"""`surgeon check` at the command line: what it prints, as text and as JSON, and its exit codes."""

import json
from itertools import pairwise

import onnx
import pytest

from tests.command_line import ROOT, one_sentence, run, save

PLACEHOLDER = "a = mylibrary.addandround_op(x) b = mylibrary.addandround_op(a) y = Relu(b)"
IMPORTS = ', "mylibrary" : 1'
IMPLEMENTATION = "import surgeon\n\n@surgeon.implements('mylibrary::addandround_op')\ndef op(x):\n    return x\n"


def test_a_model_that_runs_ends_with_0(tmp_path):
    result = run("check", save(tmp_path, "y = Relu(x)"))
    assert result.exit_code == 0
    assert result.stdout == "ONNX Runtime has all that this model needs, as far as can be told.\n"


def test_what_cannot_run_is_told_and_ends_with_1(tmp_path):
    result = run("check", save(tmp_path, PLACEHOLDER, imports=IMPORTS))
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith("mylibrary::addandround_op x2: ONNX Runtime has no op of this name")
    assert lines[1] == "  link: torch op mylibrary::addandround_op -> [no mapping] -> ONNX op (or kernel)"
    assert lines[2] == "  at: /a/addandround_op, /b/addandround_op"
    assert lines[-1] == "ONNX Runtime cannot run this model: 1 thing to mend."


def test_many_nodes_are_counted(tmp_path):
    names = ["x", *(f"h{place}" for place in range(7)), "y"]
    body = " ".join(f"{b} = mylibrary.op({a})" for a, b in pairwise(names))
    result = run("check", save(tmp_path, body, imports=IMPORTS))
    assert "mylibrary::op x8:" in result.stdout
    assert "/h4/op and 3 more" in result.stdout


def test_the_findings_as_json(tmp_path):
    path = save(tmp_path, PLACEHOLDER, imports=IMPORTS)
    result = run("check", path, "--target", "tensorrt", "--json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    (found,) = told["findings"]
    assert (told["model"], told["target"]) == (str(path), "tensorrt")
    assert (found["kind"], found["missing_link"], found["count"], found["stops"]) == ("mapping", "mapping", 2, True)
    assert found["helps"]


def test_an_op_that_a_file_implements_is_no_finding(tmp_path):
    file = tmp_path / "ops.py"
    file.write_text(IMPLEMENTATION)
    path = save(tmp_path, PLACEHOLDER, imports=IMPORTS)
    assert run("check", path, "--custom-ops", file).exit_code == 0


def test_what_stops_nothing_ends_with_0(tmp_path):
    path = save(tmp_path, "y = Relu(x)", outputs="float y")
    model = onnx.load(path)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(model, path)
    result = run("check", path)
    assert result.exit_code == 0
    assert "the output 'y' of the graph has no shape, which onnx.checker wants" in result.stdout
    assert "make_tensor_value_info('y', onnx.TensorProto.FLOAT, ['n', 4])" in result.stdout
    assert run("check", path, "--target", "onnx").exit_code == 1


def test_a_plugin_of_tensorrt(tmp_path):
    body = "a, b, c, d = trt.plugins.EfficientNMS_TRT(x, x) y = Relu(x)"
    path = save(tmp_path, body, imports=', "trt.plugins" : 1')
    result = run("check", path, "--target", "tensorrt")
    assert result.exit_code == 1
    assert "EfficientNMS_TRT needs the attributes 'score_threshold', 'iou_threshold'" in result.stdout
    assert "TensorRT cannot run this model" in result.stdout


def test_a_real_export_has_nothing_to_mend():
    path = ROOT / "notebooks" / "models" / "tiny_distilbert.onnx"
    for target in ("ort", "onnx", "tensorrt"):
        assert run("check", path, "--target", target).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.onnx"], "does not exist"),
        (["{model}", "--ep", "nonsense"], "no execution provider 'nonsense'"),
        (["{model}", "--custom-ops", "nowhere.so"], "no custom-op library 'nowhere.so'"),
        (["{model}", "--target", "onnx", "--ep", "cpu"], "leave ep out"),
        (["{text}"], "is a text file, not an ONNX model"),
    ],
)
def test_bad_input_is_one_sentence_and_ends_with_2(tmp_path, arguments, words):
    model, text = save(tmp_path, "y = Relu(x)"), tmp_path / "text.onnx"
    text.write_text("no model at all")
    result = run("check", *(item.format(model=model, text=text) for item in arguments))
    assert words in one_sentence(result, 2)
