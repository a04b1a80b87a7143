"""`surgeon check` at the command line: what it prints, as text and as JSON, and its exit codes."""

from itertools import pairwise

import onnx
import pytest

from tests.command_line import ROOT, one_sentence, result_in, run, save

PLACEHOLDER = "a = mylibrary.addandround_op(x) b = mylibrary.addandround_op(a) y = Relu(b)"
IMPORTS = ', "mylibrary" : 1'
ONE_PROBLEM = "BLOCKED  ONNX Runtime cannot run this model: 1 problem; details: -v"
IMPLEMENTATION = "import surgeon\n\n@surgeon.implements('mylibrary::addandround_op')\ndef op(x):\n    return x\n"


def test_a_model_that_runs_ends_with_0(tmp_path):
    path = save(tmp_path, "y = Relu(x)")
    result = run("check", path)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"{path.name}  1 node; target: ONNX Runtime",
        "OK       no problems found for ONNX Runtime",
    ]


def test_what_cannot_run_is_reported_and_ends_with_1(tmp_path):
    result = run("check", save(tmp_path, PLACEHOLDER, imports=IMPORTS))
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == "in.onnx  3 nodes; target: ONNX Runtime"
    nodes = "2 nodes: /a/addandround_op, /b/addandround_op"
    assert lines[1].startswith(f"stops    mylibrary::addandround_op ({nodes}): ONNX Runtime does not have this op")
    assert lines[-1] == ONE_PROBLEM


def test_a_model_of_torch_is_reported_with_the_missing_link(tmp_path):
    path = save(tmp_path, PLACEHOLDER, imports=IMPORTS)
    model = onnx.load(path)
    model.producer_name = "pytorch"
    onnx.save(model, path)
    lines = run("check", path, "-v").stdout.splitlines()
    assert lines[2] == "    link: torch op mylibrary::addandround_op -> [no mapping] -> ONNX op (or kernel)"


def stack(tmp_path, count=360, dtype=1):
    """Sums of as many weights, one after the other: some thousand lines, were each told by name."""
    names = ["x", *(f"h{place}" for place in range(1, count)), "y"]
    nodes = [
        onnx.helper.make_node("Add", [names[place], f"w{place}"], [names[place + 1]], name=f"add{place}")
        for place in range(count)
    ]
    weights = [onnx.helper.make_tensor(f"w{place}", dtype, [4], [1.0] * 4) for place in range(count)]
    ends = [onnx.helper.make_tensor_value_info(name, 1, ["n", 4]) for name in "xy"]
    graph = onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    return model, tmp_path / "stack.onnx"


def lost(model):
    del model.graph.initializer[:]


def twice(model):
    model.graph.node.extend(list(model.graph.node))


def renamed(model):
    for place, node in enumerate(model.graph.node):
        node.attribute.append(onnx.helper.make_attribute(f"fused_{place}", 1))


def too_long(model):
    for weight in model.graph.initializer:
        weight.dims[0] = 5


def without_import(model):
    del model.opset_import[:]


CAUSES = {
    "weights are lost": (lost, "ai.onnx::Add (360 nodes: add0 ('w0'), add1 ('w1') and 358 more): nodes read tensors"),
    "nodes are there twice": (twice, "names are defined twice (360: "),
    "attributes that nobody knows": (
        renamed,
        "ai.onnx::Add (360 nodes: add0 ('fused_0'), add1 ('fused_1') and 358 more): Add has no attribute '…' at",
    ),
    "dims disagree with the data": (too_long, "tensors have more or less data than their shapes require (360: "),
    "an import is missing": (without_import, "the model uses ops of ai.onnx, but imports no version of it"),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_one_cause_is_reported_once_however_many_tensors_it_touches(tmp_path, cause):
    """By what is wrong, and not by the name of each tensor."""
    model, path = stack(tmp_path)
    harm, reported = CAUSES[cause]
    harm(model)
    path.write_bytes(model.SerializeToString())
    result = run("check", path)
    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    assert lines[1].startswith(f"stops    {reported}")
    assert lines[-1] == ONE_PROBLEM
    assert len(lines) <= 4
    count = result_in(run("check", path, "--json").stdout)["findings"][0]["count"]
    assert count == (1 if harm is without_import else 360)


def test_one_tensor_that_holds_too_little_is_reported_with_its_numbers(tmp_path):
    model, path = stack(tmp_path, 2)
    model.graph.initializer[0].dims[0] = 5
    path.write_bytes(model.SerializeToString())
    first = run("check", path).stdout.splitlines()[1]
    assert first.startswith("stops    the tensor 'w0' has the shape [5], but ")
    assert "4" in first


def test_ops_that_lack_a_kernel_for_the_same_reason_are_reported_together(tmp_path):
    """A node of each op; no rule makes of them what runs."""
    body = "c = Cast<to = 16>(x) e = Round(c) f = Erf(e) g = Sin(f) y = Cast<to = 1>(g)"
    result = run("check", save(tmp_path, body, opset=22, ir_version=10, constants=""))
    lines = result.stdout.splitlines()
    reason = "ONNX Runtime has no kernel for it on CPU in bfloat16"
    nodes = "3 nodes: /e/Round, /f/Erf and 1 more"
    assert lines[1] == f"stops    ai.onnx::Round, ai.onnx::Erf, ai.onnx::Sin ({nodes}): {reason}"
    assert lines[-1] == ONE_PROBLEM


def test_a_domain_of_onnx_runtime_that_is_not_imported_stops_nothing_there(tmp_path):
    """It loads such a model."""
    path = save(tmp_path, "y = com.microsoft.Gelu(x)")
    assert run("check", path).exit_code == 0
    assert "uses ops of com.microsoft, but imports no version of it" in run("check", path).stdout


def test_many_nodes_are_counted(tmp_path):
    names = ["x", *(f"h{place}" for place in range(7)), "y"]
    body = " ".join(f"{b} = mylibrary.op({a})" for a, b in pairwise(names))
    result = run("check", save(tmp_path, body, imports=IMPORTS))
    assert "mylibrary::op (8 nodes: /h0/op, /h1/op and 6 more):" in result.stdout


def test_the_findings_as_json(tmp_path):
    path = save(tmp_path, PLACEHOLDER, imports=IMPORTS)
    result = run("check", path, "--target", "tensorrt", "--json")
    assert result.exit_code == 1
    data = result_in(result.stdout)
    (found,) = data["findings"]
    assert (data["model"], data["target"]) == (str(path), "tensorrt")
    assert (found["kind"], found["missing_link"], found["count"], found["stops"]) == ("mapping", "mapping", 2, True)
    assert found["helps"]


def test_an_op_that_only_a_python_file_implements_stops_the_model(tmp_path):
    file = tmp_path / "ops.py"
    file.write_text(IMPLEMENTATION)
    path = save(tmp_path, PLACEHOLDER, imports=IMPORTS)
    result = run("check", path, "--custom-ops", file)
    assert result.exit_code == 1
    assert "only surgeon runs its Python implementation" in result.output


def test_what_stops_nothing_ends_with_0(tmp_path):
    path = save(tmp_path, "y = Relu(x)", outputs="float y")
    model = onnx.load(path)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(model, path)
    result = run("check", path)
    assert result.exit_code == 0
    assert "the output 'y' of the graph has no shape, which onnx.checker requires" in result.stdout
    assert "declare it: surgeon edit IN OUT --state 'y=float32[n,4]'" in result.stdout
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
        (["nowhere.onnx"], "File not found"),
        (["{model}", "--ep", "nonsense"], "Unknown execution provider 'nonsense'"),
        (["{model}", "--custom-ops", "nowhere.so"], "Custom-op library not found: nowhere.so"),
        (["{model}", "--target", "onnx", "--ep", "cpu"], "Omit ep"),
        (["{text}"], "is a text file, not an ONNX model"),
    ],
)
def test_bad_input_is_one_sentence_and_ends_with_2(tmp_path, arguments, words):
    model, text = save(tmp_path, "y = Relu(x)"), tmp_path / "text.onnx"
    text.write_text("no model at all")
    result = run("check", *(item.format(model=model, text=text) for item in arguments))
    assert words in one_sentence(result, 2)
