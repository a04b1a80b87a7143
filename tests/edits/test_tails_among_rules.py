"""`--rules nms`: what is put behind a detector, asked for among rules."""


import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import surgeon
from surgeon.rules.edit_aliases import EDIT_ALIASES
from surgeon.testing import parse
from tests.command_line import result_in, run

HEADER = '<ir_version: 8, opset_import: ["" : 18]> g '
GELU = "h = Div(w, root)  e = Erf(h)  f = Add(e, one)  m = Mul(w, f)  v = Mul(m, half)"
SSD = onnx.parser.parse_model(
    HEADER
    + """(float[1, 40, 4] offsets, float[1, 40, 3] w) => (float[1, 40, 4] corners, float[1, 40, 3] likely)
    <float[2] anchor = {0.5, 0.4}, float two = {2.0}, float root = {1.41421356}, float one = {1.0}, float half = {0.5}>
    { xy, wh = Split <axis = 2, num_outputs = 2> (offsets)
      centre = Mul(xy, anchor)  grown = Exp(wh)  size = Mul(grown, anchor)  part = Div(size, two)
      low = Sub(centre, part)  high = Add(centre, part)  corners = Concat <axis = 2> (low, high)
      """
    + GELU
    + " likely = Sigmoid(v) }"
)
OWN = onnx.parser.parse_model(
    HEADER
    + """(float[1, 40, 4] b, float[1, 3, 40] s) => (int64[n, 3] chosen)
    <int64[1] most = {7}, float[1] iou = {0.3}, float[1] least = {0.6}>
    { all = Identity(b)  p = Sigmoid(s)  chosen = NonMaxSuppression(all, p, most, iou, least) }"""
)


def ops(model):
    return [node.op_type for node in model.graph.node]


def answers(model):
    return [value.name for value in model.graph.output]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.onnx"
    onnx.save(SSD, path)
    return path


def test_the_tail_is_proved_as_an_edit_and_rules_run_over_what_comes_of_it(source, tmp_path):
    out, reported = tmp_path / "out.onnx", tmp_path / "report.json"
    done = run("rewrite", source, out, "--rules", "gelu:gelu,nms", "--expect", "nms=1", "--report", reported)
    assert done.exit_code == 0, done.output
    words = " ".join(done.output.split())
    assert "append-nms outputs 'boxes', 'scores', 'classes', 'batch' are the detections of 'corners' and" in words
    assert "PROVED the edit proved on" in words
    assert "gelu 1" in words
    made = onnx.load(out)
    assert answers(made) == ["boxes", "scores", "classes", "batch"]
    assert {"NonMaxSuppression", "Gelu"} <= set(ops(made))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.onnx", "out.onnx", "report.json"]
    report = result_in(reported.read_text())
    assert (report["outcome"], report["counts"]) == ("proved", {"nms": 1, "gelu": 1})
    assert report["edited"]["outcome"] == "proved"


def test_it_is_what_appending_makes(source, tmp_path):
    one, other = tmp_path / "one.onnx", tmp_path / "other.onnx"
    assert run("rewrite", source, one, "--rules", "nms").exit_code == 0
    assert run("append", source, other, "nms").exit_code == 0
    assert onnx.load(one) == onnx.load(other)


@pytest.mark.parametrize(
    ("name", "target", "op", "outputs"),
    [
        ("nms", "tensorrt", "NonMaxSuppression", ["boxes", "scores", "classes", "batch"]),
        (
            "efficient_nms",
            "tensorrt",
            "EfficientNMS_TRT",
            ["num_detections", "detection_boxes", "detection_scores", "detection_classes"],
        ),
        ("best_boxes", "onnx", "TopK", ["boxes", "scores", "classes"]),
        ("raw_boxes", "ort", "Sigmoid", ["boxes", "scores"]),
    ],
)
def test_each_tail_for_its_target_in_python(name, target, op, outputs):
    made, report = surgeon.rewrite(SSD, name, target=target)
    assert (report.outcome, report.count(name), report.edited.outcome) == ("proved", 1, "proved")
    assert op in ops(made)
    assert answers(made) == outputs


def test_a_suppression_of_the_models_own_is_replaced():
    made, report = surgeon.rewrite(OWN, "nms")
    assert report.outcome == "proved"
    assert "iou=0.3" in report.edited.edits[0].edit.spelling
    assert answers(made) == ["boxes", "scores", "classes", "batch"]
    assert ops(made).count("NonMaxSuppression") == 1
    feeds = {"b": np.random.default_rng(0).random((1, 40, 4), np.float32), "s": np.ones((1, 3, 40), np.float32)}
    before, after = (
        ReferenceEvaluator(model).run([name], feeds)[0]
        for model, name in ((OWN, "chosen"), (made, "classes"))
    )
    np.testing.assert_array_equal(before[:, 1], after)


REFUSED = [
    ("efficient_nms", "ort", "is a TensorRT plugin and needs --target tensorrt, but the target is ort"),
    ("nms,raw_boxes", "ort", "nms and raw_boxes cannot be combined. Choose one kind of"),
    ("gelu,-nms", "ort", "nms is an edit, because it changes the outputs"),
]


@pytest.mark.parametrize(("names", "target", "message"), REFUSED)
def test_what_cannot_be_is_one_sentence(names, target, message):
    with pytest.raises(surgeon.SurgeonError, match=message):
        surgeon.rewrite(SSD, names, target=target)


def test_what_the_graph_does_not_tell_names_the_command_that_takes_it(source, tmp_path):
    raw = onnx.ModelProto()
    raw.CopyFrom(SSD)
    raw.graph.node[-1].op_type = "Relu"
    onnx.save(raw, source)
    done = run("rewrite", source, tmp_path / "out.onnx", "--rules", "gelu,nms")
    assert (done.exit_code, done.output.count("\n"), (tmp_path / "out.onnx").exists()) == (2, 1, False)
    assert "Use the options of: surgeon append IN OUT nms" in done.output
    done = run("append", source, tmp_path / "out.onnx", "nms", "--activation", "sigmoid")
    assert done.exit_code == 0, done.output


def test_what_is_no_detector_names_it_too(source, tmp_path):
    """That shows only as the edit is done."""
    onnx.save(parse("(float[n, s, 400] x) => (float[n, s, 400] y) { y = Relu(x) }"), source)
    done = run("rewrite", source, tmp_path / "out.onnx", "--rules", "nms")
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert "Give head=yolov8 or yolov5. Use the options of: surgeon append IN OUT nms" in done.output


def test_a_tail_that_answers_otherwise_is_not_written(source, tmp_path, monkeypatch):
    from surgeon.edits.detection.nms import AppendNms

    right = AppendNms._found

    def wrong(self, boxes, scores, first):
        boxes, *rest = right(self, boxes, scores, first)
        return boxes + 1, *rest

    monkeypatch.setattr(AppendNms, "_found", wrong)
    with pytest.raises(surgeon.CheckFailed) as caught:
        surgeon.rewrite(source, "nms", output=tmp_path / "out.onnx")
    assert caught.value.report.edited.outcome == "failed"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.onnx"]


@pytest.mark.parametrize("name", ["nms", "efficient_nms"])
def test_a_second_run_changes_nothing(name, tmp_path):
    made, _ = surgeon.rewrite(SSD, name, target="tensorrt")
    onnx.save(made, tmp_path / "once.onnx")
    done = run("rewrite", tmp_path / "once.onnx", tmp_path / "twice.onnx", "--rules", name, "--target", "tensorrt")
    assert done.exit_code == 0, done.output
    assert f"UNCHANGED nothing left to do already {name}: the model answers so" in " ".join(done.output.split())
    assert (tmp_path / "once.onnx").read_bytes() == (tmp_path / "twice.onnx").read_bytes()


def test_outputs_that_are_called_so_and_suppressed_nowhere_are_a_head():
    raw = onnx.ModelProto()
    raw.CopyFrom(SSD)
    for value, name in zip(raw.graph.output, ("boxes", "scores"), strict=True):
        for node in raw.graph.node:
            node.output[:] = [name if each == value.name else each for each in node.output]
        value.name = name
    made, report = surgeon.rewrite(raw, "nms")
    assert report.count("nms") == 1
    assert len(answers(made)) == 4


def test_a_dry_run_says_what_would_be_and_writes_nothing(source, tmp_path):
    made, report = surgeon.rewrite(source, "nms,gelu:gelu", dry_run=True)
    assert made == source
    assert report.counts == {"nms": 1, "gelu": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["in.onnx"]


def test_a_recipe_has_it_among_its_rules(tmp_path):
    recipe = surgeon.Recipe([surgeon.Rules("nms,gelu", expect={"nms": 1})])
    made, report = surgeon.run(recipe, SSD)
    assert (report.outcome, report.counts) == ("proved", {"nms": 1, "gelu": 1})
    assert "NonMaxSuppression" in ops(made)


def test_a_graph_of_graph_surgeon_comes_back_with_it():
    import onnx_graphsurgeon as gs

    made, report = surgeon.rewrite(gs.import_onnx(SSD), "nms")
    assert report.edited is not None
    assert [tensor.name for tensor in made.outputs] == ["boxes", "scores", "classes", "batch"]


def test_it_is_listed_and_has_a_manual():
    listed = run("rules").output
    assert "  detectors " in listed
    for name, tail in EDIT_ALIASES.items():
        assert name in listed
        manual = run("rules", name)
        assert manual.exit_code == 0
        assert f"surgeon append IN OUT {tail.kind}" in manual.output
        assert "Attributes:" in manual.output or "Raises:" in manual.output
    result = run("rules", "nms", "--prove")
    assert result.exit_code == 2
    assert "nms is an edit, because it changes the outputs: surgeon rewrite IN OUT --rules nms" in result.output
