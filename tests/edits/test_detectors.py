"""Heads of detectors found by structure, and what is put behind them: equal to the models' own post-processing."""

import importlib

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch

import surgeon
from surgeon.edits import AppendBestBoxes, AppendBoxes, AppendEfficientNms, AppendNms, AppendSigmoid, detector_tail
from surgeon.edits.detection.find_head import find_head
from surgeon.file.model import Model
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.runtime.kernels.vision.non_max_suppression import best_boxes, efficient_nms
from surgeon.runtime.tensorrt.library import installed
from tests import sampling
from tests.command_line import run
from tests.edits.detectors import CLASSES, Answers, Fcos, RetinaNet, Ssd, exported, transformer

HEADER = '<ir_version: 8, opset_import: ["" : 17]> g '


def answer(model, feeds):
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([item.name for item in session.get_outputs()], session.run(None, feeds), strict=True))


def picture(model):
    size = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    return {"x": np.random.default_rng(4).random(size, np.float32)}


def by_hand(boxes, scores, iou, least, most, first=0):
    """Detections of one picture as torchvision's `batched_nms` and `nms` define them, in plain loops."""
    found = []
    for number in range(scores.shape[1]):
        kept = []
        for place in sorted(range(len(boxes)), key=lambda row: -scores[row, number]):
            if scores[place, number] <= least or len(kept) == most:
                break
            x1, y1, x2, y2 = boxes[place]
            for other in kept:
                a1, b1, a2, b2 = boxes[other]
                inter = max(0, min(x2, a2) - max(x1, a1)) * max(0, min(y2, b2) - max(y1, b1))
                union = (x2 - x1) * (y2 - y1) + (a2 - a1) * (b2 - b1) - inter
                if union > 0 and inter / union > iou:
                    break
            else:
                kept.append(place)
        found += [(number + first, scores[place, number], *boxes[place]) for place in kept]
    return found


HEADS = {
    "ssd": (Ssd, ("p", "b"), "", "xyxy", "softmax"),
    "ssd-centres": (lambda: Ssd(corners=False), ("p", "b"), "", "cxcywh", "softmax"),
    "ssd-logits": (lambda: Ssd(softmax=False), ("p", "b"), "softmax", "xyxy", ""),
    "retinanet": (RetinaNet, ("b", "p"), "", "xyxy", "sigmoid"),
    "retinanet-logits": (lambda: RetinaNet(sigmoid=False), ("b", "p"), "sigmoid", "xyxy", ""),
    "fcos": (Fcos, ("p", "b"), "", "xyxy", "sigmoid"),
}


@pytest.mark.parametrize("dynamo", [False, True], ids=["ts", "dynamo"])
@pytest.mark.parametrize("name", HEADS)
def test_heads_are_found_and_suppressed(name, dynamo):
    make, outputs, activation, form, made_by = HEADS[name]
    torch.manual_seed(0)
    model = exported(make(), list(outputs), opset=18 if dynamo else 17, dynamo=dynamo)
    with Model.open(model) as opened:
        found = find_head(ModelDraft(opened))
    assert (found.boxes, found.scores, found.box_format, found.score_activation) == ("b", "p", form, made_by)
    made, report = surgeon.edit(model, detector_tail(model, activation=activation, least=0.3, iou=0.4))
    assert report.outcome == "proved"
    before, after = answer(model, picture(model)), answer(made, picture(model))
    boxes, scores = before["b"][0], torch.from_numpy(before["p"][0])
    made_of = {"": lambda x: x, "sigmoid": torch.sigmoid, "softmax": lambda x: x.softmax(-1)}
    scores = made_of[activation](scores).numpy()
    if form == "cxcywh":
        boxes = np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1)
    with_background = name.startswith("ssd")
    assert scores.shape[1] == CLASSES + with_background
    wanted = by_hand(boxes, scores[:, 1:] if with_background else scores, 0.4, 0.3, 100, first=int(with_background))
    rows = zip(after["classes"], after["scores"], after["boxes"], strict=True)
    assert wanted
    np.testing.assert_allclose([(number, score, *box) for number, score, box in rows], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("tail", ["efficient-nms", "boxes", "best-boxes"])
@pytest.mark.parametrize("name", ["ssd", "retinanet"])
def test_other_tails_fit_the_same_heads(name, tail):
    make, outputs, *_ = HEADS[name]
    torch.manual_seed(0)
    model = exported(make(), list(outputs))
    edits = detector_tail(model, tail)
    assert type(edits[-1]).parse(edits[-1].spelling) == edits[-1]
    made, report = surgeon.edit(model, edits)
    assert report.outcome == "proved"
    if tail == "boxes":
        found = answer(made, picture(model))
        assert found["scores"].shape[2] == CLASSES
        np.testing.assert_array_equal(found["boxes"], answer(model, picture(model))["b"])


SIGMOIDS = ("conditional_detr", "rt_detr", "deformable_detr")


@pytest.mark.parametrize("name", sampling.chosen(lambda: ["detr", "rt_detr"], lambda: ["detr", "yolos", *SIGMOIDS]))
def test_kin_of_detr_answer_as_their_own_post_processing(name):
    """Against `post_process_object_detection` of transformers; all outputs of the model are there, six pairs in one."""
    torch_model = transformer(name)
    is_sigmoid = name in SIGMOIDS
    model = exported(Answers(torch_model), opset=20 if name == "deformable_detr" else 17, size=(64, 64))
    if name == "deformable_detr":  # torch writes its GridSample in double, for which ONNX Runtime has no kernel
        (finding,) = surgeon.check(model)
        assert finding.op == "ai.onnx::GridSample"
        assert finding.helps[-1].endswith("surgeon convert IN OUT --from float64 --to float32")
        model, _ = surgeon.convert(model, "float32")
        assert not surgeon.check(model)
    with pytest.raises(surgeon.UsageError, match="does not show that 'logits' are probabilities"):
        detector_tail(model, "best-boxes")
    edits = detector_tail(model, "best-boxes", activation="sigmoid" if is_sigmoid else "softmax", most=12)
    assert (edits[-1].output, edits[-1].form, edits[-1].single) == ("pred_boxes", "cxcywh", not is_sigmoid)
    assert edits[-1].background == ("" if is_sigmoid else "last")
    made, report = surgeon.edit(model, edits)
    assert report.outcome == "proved"
    names = {"rt_detr": "RTDetr", "yolos": "Yolos", "detr": "Detr"}
    kind = names.get(name) or "".join(part.title() for part in name.split("_"))
    processor = getattr(importlib.import_module("transformers"), f"{kind}ImageProcessorPil")()
    before = answer(model, picture(model))
    answered = type("Answered", (), {name: torch.from_numpy(array) for name, array in before.items()})
    more = {"top_k": 12} if name in ("conditional_detr", "deformable_detr") else {}
    (wanted,) = processor.post_process_object_detection(answered, threshold=0.0, **more)
    order = np.argsort(-wanted["scores"].numpy(), kind="stable")
    found = answer(made, picture(model))
    np.testing.assert_allclose(found["scores"][0], wanted["scores"].numpy()[order], rtol=1e-5)
    np.testing.assert_array_equal(found["classes"][0], wanted["labels"].numpy()[order])
    np.testing.assert_allclose(found["boxes"][0], wanted["boxes"].numpy()[order], rtol=1e-5, atol=1e-6)


OWN = (
    HEADER
    + """(float[1, 40, 4] b, float[1, 3, 40] s) => (int64[n, 3] chosen, float[n, 4] picked)
    <int64[1] most = {7}, float[1] iou = {0.3}, float[1] least = {0.6}, int64[1] last = {2}, int64[1] axis = {1}>
    { boxes_all = Identity(b)  scores_all = Sigmoid(s)
      chosen = NonMaxSuppression<center_point_box = 1>(boxes_all, scores_all, most, iou, least)
      place = Gather<axis = 1>(chosen, last)  flat = Squeeze(place, axis)
      row = Squeeze(boxes_all)  picked = Gather(row, flat) }"""
)


def test_a_suppression_of_the_models_own_is_replaced_and_its_limits_taken_over():
    model = onnx.parser.parse_model(OWN)
    (edit,) = detector_tail(model)
    limits = {"iou": np.float32(0.3), "least": np.float32(0.6), "most": 7}
    assert edit == AppendNms("boxes_all", "scores_all", form="cxcywh", **limits)
    made, report = surgeon.edit(model, edit)
    assert report.outcome == "proved"
    assert [value.name for value in made.graph.output] == ["boxes", "scores", "classes", "batch"]
    assert [node.op_type for node in made.graph.node].count("NonMaxSuppression") == 1
    rng = np.random.default_rng(0)
    feeds = {"b": rng.random((1, 40, 4), np.float32), "s": rng.standard_normal((1, 3, 40)).astype(np.float32)}
    chosen = answer(model, feeds)["chosen"]
    np.testing.assert_array_equal(answer(made, feeds)["classes"], chosen[:, 1])
    cut, report = surgeon.edit(model, detector_tail(model, "boxes"))
    assert report.outcome == "proved"
    assert "NonMaxSuppression" not in {node.op_type for node in cut.graph.node}
    plugin, report = surgeon.edit(model, detector_tail(model, "efficient-nms", most=5))
    assert report.outcome == "proved"
    assert [node.op_type for node in plugin.graph.node].count("EfficientNMS_TRT") == 1


def test_a_suppression_of_boxes_moved_by_class_is_reported():
    """As torchvision's `batched_nms`: boxes of one class moved apart from those of others."""
    model = onnx.parser.parse_model(
        HEADER
        + """(float[1, 40, 4] b, float[1, 1, 40] s, float[1, 40, 1] c) => (int64[n, 3] y)
        <int64[1] most = {7}, float[1] iou = {0.3}, float[1] least = {0.6}>
        { m = Add(b, c)  y = NonMaxSuppression(m, s, most, iou, least) }"""
    )
    with pytest.raises(surgeon.UsageError, match="reads boxes that were selected or shifted before it"):
        detector_tail(model)


def plain(extra="", outputs="", boxes="Relu(b)", scores="Sigmoid(s)"):
    return onnx.parser.parse_model(
        HEADER
        + f"(float[1, 40, 4] b, float[1, 40, 3] s) => (float[1, 40, 4] p, float[1, 40, 3] q{outputs}) "
        + f"{{ p = {boxes}  q = {scores} {extra} }}"
    )


REFUSED = [
    (plain(boxes="Tanh(b)"), {}, "does not show the box format of 'p'. Give it with --form"),
    (plain(scores="Relu(s)"), {}, "does not show that 'q' are probabilities"),
    (
        plain("z = Relu(s)", ", float[1, 40, 3] z"),
        {},
        "Several outputs could be the scores of 'p': 'q', 'z'. Choose one with --scores",
    ),
    (onnx.parser.parse_model(HEADER + "(float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }"), {}, "No outputs are"),
    (plain(), {"tail": "soft-nms"}, "Unknown post-processing 'soft-nms' of a detector. Choose one of nms, eff"),
    (plain(), {"activation": "tanh"}, "Unknown activation 'tanh' of scores"),
    (plain(), {"output": "pp"}, "did you mean 'p'"),
]


@pytest.mark.parametrize(("model", "asked", "message"), REFUSED, ids=lambda item: item if isinstance(item, str) else "")
def test_what_cannot_be_reported_is_one_sentence(model, asked, message):
    with pytest.raises(surgeon.UsageError, match=message):
        detector_tail(model, **asked)


def test_what_is_said_goes_before_what_is_found():
    edits = detector_tail(plain(scores="Relu(s)"), form="xyxy", activation="none", most=3)
    assert edits == [AppendNms("p", "q", form="xyxy", most=3)]
    edits = detector_tail(plain(), output="p", scores="q", activation="sigmoid", background="last", form="cxcywh")
    assert edits == [AppendSigmoid("q"), AppendNms("p", "q_sigmoid", form="cxcywh", background="last")]


BOXES = np.array(
    [[0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30], [0, 0, 10, 10], [40, 40, 50, 50], [2, 2, 9, 9]], np.float32
)
MADE = {
    "ties": np.full((6, 3), 0.5, np.float32),
    "none": np.zeros((6, 3), np.float32),
    "all": np.linspace(0.3, 1, 18, dtype=np.float32).reshape(6, 3),
    "one class": np.linspace(1, 0.3, 6, dtype=np.float32)[:, None],
}


@pytest.mark.parametrize("background", ["", "first", "last"])
@pytest.mark.parametrize("agnostic", [False, True])
@pytest.mark.parametrize("name", MADE)
def test_generated_boxes_by_the_model_and_by_hand(name, agnostic, background):
    """The nodes that are appended, run by ONNX Runtime, beside torchvision's definition in loops."""
    scores = MADE[name]
    count = scores.shape[1]
    if background and count == 1:
        scores, count = np.concatenate([scores, scores], 1), 2
    text = f"(float[1, 6, 4] b, float[1, 6, {count}] s) => (float[1, 6, 4] p, float[1, 6, {count}] q)"
    model = onnx.parser.parse_model(f"{HEADER}{text} {{ p = Identity(b)  q = Identity(s) }}")
    limits = {"iou": 0.5, "least": 0.2, "most": 4}
    edit = AppendNms("p", "q", form="xyxy", background=background, agnostic=agnostic, **limits)
    made, _ = surgeon.edit(model, edit, check="none")
    found = answer(made, {"b": BOXES[None], "s": scores[None]})
    left = {"": scores, "first": scores[:, 1:], "last": scores[:, :-1]}[background]
    first = int(background == "first")
    if agnostic:
        wanted = by_hand(BOXES, left.max(1, keepdims=True), 0.5, 0.2, 4)
        best = {(*box, score): number for box, score, number in zip(BOXES, left.max(1), left.argmax(1), strict=True)}
        wanted = [(best[(*row[2:], row[1])] + first, *row[1:]) for row in wanted]
    else:
        wanted = by_hand(BOXES, left, 0.5, 0.2, 4, first)
    rows = zip(found["classes"], found["scores"], found["boxes"], strict=True)
    assert [(int(number), score, *box) for number, score, box in rows] == wanted
    assert bool(wanted) == (name != "none")


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("background", ["", "first", "last"])
@pytest.mark.parametrize("name", ["ties", "all", "none"])
def test_the_best_boxes_of_generated_ones(name, background, single):
    scores = MADE[name]
    text = "(float[2, 6, 4] b, float[2, 6, 3] s) => (float[2, 6, 4] p, float[2, 6, 3] q)"
    model = onnx.parser.parse_model(f"{HEADER}{text} {{ p = Identity(b)  q = Identity(s) }}")
    edit = AppendBestBoxes("p", "q", form="xyxy", background=background, single=single, most=9)
    made, _ = surgeon.edit(model, edit, check="none")
    found = answer(made, {"b": np.stack([BOXES, BOXES + 1]), "s": np.stack([scores, scores[::-1]])})
    left = {"": scores, "first": scores[:, 1:], "last": scores[:, :-1]}[background]
    first = int(background == "first")
    numbers = range(left.shape[1])
    rows = [(left[place, number], place, number) for place in range(6) for number in numbers]
    if single:
        of_each = [rows[place * len(numbers) : (place + 1) * len(numbers)] for place in range(6)]
        rows = [max(each, key=lambda row: row[0]) for each in of_each]
    rows = sorted(rows, key=lambda row: -row[0])[:9]
    assert found["scores"][0].tolist() == [row[0] for row in rows]
    assert found["classes"][0].tolist() == [row[2] + first for row in rows]
    np.testing.assert_array_equal(found["boxes"][0], BOXES[[row[1] for row in rows]])
    assert found["boxes"].shape == (2, 6 if single else 9, 4)


def test_limits_that_are_inputs_have_values_of_their_own():
    made, report = surgeon.edit(plain(), AppendNms("p", "q", form="xyxy", least=0.5, tunable=True))
    assert report.outcome == "proved"
    assert [value.name for value in made.graph.input] == ["b", "s", "iou_threshold", "score_threshold"]
    rng = np.random.default_rng(0)
    feeds = {"b": rng.random((1, 40, 4), np.float32), "s": rng.standard_normal((1, 40, 3)).astype(np.float32)}
    assert answer(made, feeds)["scores"].min() > 0.5
    assert answer(made, {**feeds, "score_threshold": np.array([0.8], np.float32)})["scores"].min() > 0.8
    with pytest.raises(surgeon.UsageError, match="limits of EfficientNMS_TRT are attributes"):
        AppendEfficientNms("p", "q", tunable=True)
    with pytest.raises(surgeon.UsageError, match="Unknown background 'second'"):
        AppendBoxes("p", "q", background="second")


def test_a_wrong_tail_fails(monkeypatch):
    def wrong(self, boxes, scores, first):
        return best_boxes(boxes, -scores, 9, single=True)

    monkeypatch.setattr(AppendBestBoxes, "_found", wrong)
    with pytest.raises(surgeon.CheckFailed, match="Output"):
        surgeon.edit(plain(), AppendBestBoxes("p", "q", single=True, most=9))


def test_the_background_of_the_plugin_leaves_numbers_as_they_are():
    scores = np.zeros((1, 6, 3), np.float32)
    scores[0, :, 1], scores[0, 2, 2], scores[0, 4, 0] = 0.9, 0.8, 0.7
    count, _, values, classes = efficient_nms(BOXES[None], scores, score_threshold=0.5, background_class=1)
    assert (count.tolist(), classes[0, :2].tolist()) == ([[2]], [2, 0])
    np.testing.assert_array_equal(values[0, :2], np.float32([0.8, 0.7]))


@pytest.mark.skipif(installed() is None, reason="there is no tensorrt-rtx: it has wheels for few platforms")
@pytest.mark.parametrize("tail", ["nms", "best-boxes", "boxes"])
def test_tensorrt_reads_the_tails(tail):
    torch.manual_seed(0)
    model = exported(Ssd(), ["p", "b"])
    made, _ = surgeon.edit(model, detector_tail(model, tail), check="none")
    assert surgeon.check(made, "tensorrt") == []


def test_the_command(tmp_path):
    torch.manual_seed(0)
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(exported(Ssd(softmax=False), ["p", "b"]), source)
    done = run("append", source, out, "nms")
    assert (done.exit_code, done.output.count("\n"), out.exists()) == (2, 1, False)
    assert "with --activation sigmoid (RT-DETR" in done.output
    done = run("append", source, out, "nms", "--activation", "softmax", "--least", "0.4", "--tunable")
    assert done.exit_code == 0, done.output
    assert "'p_softmax' is the softmax of 'p'" in " ".join(done.output.split())
    assert "PROVED" in done.output
    assert "best-boxes has no setting 'iou'" in run("append", source, out, "best-boxes", "--iou", "0.5").output
