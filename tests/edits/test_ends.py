"""What is put in front of a model and behind it: equal to numpy, and Pillow, by hand."""


import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import surgeon
from surgeon.edits import (
    AppendArgMax,
    AppendEfficientNms,
    AppendNms,
    AppendSoftmax,
    AppendTopK,
    Free,
    PrependImage,
    Rename,
    Retype,
)
from surgeon.edits.image_resampling import resample
from surgeon.runtime.kernels.vision.non_max_suppression import detect, overlaps
from surgeon.testing import parse
from tests.command_line import result_in, run

RNG = np.random.default_rng(0)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def picture_model(dtype=TensorProto.FLOAT, opset=18):
    """A small net of pictures: a convolution, a mean, four scores."""
    numbers = np.random.default_rng(1).standard_normal((4, 3, 3, 3))
    weight = numpy_helper.from_array(numbers.astype(helper.tensor_dtype_to_np_dtype(dtype)), "w")
    nodes = [
        helper.make_node("Conv", ["images", "w"], ["c"]),
        helper.make_node("GlobalAveragePool", ["c"], ["p"]),
        helper.make_node("Flatten", ["p"], ["logits"]),
    ]
    ends = helper.make_tensor_value_info("images", dtype, ["batch", 3, 32, 32])
    graph = helper.make_graph(
        nodes, "g", [ends], [helper.make_tensor_value_info("logits", dtype, ["batch", 4])], [weight]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    return model


def head_model(shape, scores=None, dtype=TensorProto.FLOAT):
    """A detector that answers with what it is given, between 0 and 1."""
    named = [("out", shape), ("scores_in", scores)] if scores else [("out", shape)]
    inputs = [helper.make_tensor_value_info(f"{name}_raw", dtype, ["batch", *size]) for name, size in named]
    outputs = [helper.make_tensor_value_info(name, dtype, ["batch", *size]) for name, size in named]
    nodes = [helper.make_node("Sigmoid", [f"{name}_raw"], [name]) for name, _ in named]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 8
    return model


def answer(model, feeds):
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([item.name for item in session.get_outputs()], session.run(None, feeds), strict=True))


SETTINGS = [
    {},
    {"mean": MEAN, "std": STD},
    {"layout": "NCHW", "mean": (0.5,), "std": (0.5,), "bgr": True},
    {"resize": (32, 32), "mean": MEAN},
    {"resize": (32, 32), "dtype": "float32", "layout": "NCHW", "scale": 1.0},
]


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.FLOAT16])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_pictures_are_prepared_inside(settings, dtype):
    model = picture_model(dtype)
    edit = PrependImage("images", **settings)
    made, report = surgeon.edit(model, edit, check="model")
    assert report.outcome == "proved"
    assert PrependImage.parse(edit.spelling) == edit
    size = (50, 70) if edit.resize else (32, 32)
    pictures = RNG.integers(0, 256, (2, 3, *size)).astype(edit.dtype)
    fed = pictures if edit.layout == "NCHW" else pictures.transpose(0, 2, 3, 1)
    found = answer(made, {"images": np.ascontiguousarray(fed)})["logits"]
    by_hand = pictures[:, ::-1] if edit.bgr else pictures
    by_hand = resample(by_hand, *edit.resize, antialias=True) if edit.resize else by_hand.astype(np.float64)
    mean, std = (np.reshape(given or empty, (-1, 1, 1)) for given, empty in ((edit.mean, (0,)), (edit.std, (1,))))
    by_hand = (by_hand / edit.scale - mean) / std
    expected = answer(model, {"images": by_hand.astype(helper.tensor_dtype_to_np_dtype(dtype))})["logits"]
    part = 4e-3 if dtype == TensorProto.FLOAT16 else 1e-5
    np.testing.assert_allclose(found, expected, rtol=0, atol=part * float(np.abs(expected).max()))


def test_a_resize_is_pillows_within_one_of_255():
    image = pytest.importorskip("PIL.Image")
    for before, after in (((50, 70), (32, 32)), ((20, 30), (32, 64)), ((33, 17), (10, 40))):
        picture = RNG.integers(0, 256, (*before, 3)).astype(np.uint8)
        theirs = np.asarray(image.fromarray(picture).resize(after[::-1], image.BILINEAR)).transpose(2, 0, 1)
        assert np.abs(theirs - resample(picture.transpose(2, 0, 1), *after, antialias=True)).max() <= 1


def test_a_wrong_preparation_fails(monkeypatch):
    monkeypatch.setattr(
        PrependImage, "_computed", lambda self, pictures, *_: np.zeros((len(pictures), 3, 32, 32), "f4")
    )
    with pytest.raises(surgeon.CheckFailed, match="Output 'logits'"):
        surgeon.edit(picture_model(), PrependImage("images"))


def test_ends_are_put_one_behind_the_other():
    edits = [
        Rename("images", "x"),
        PrependImage("x", mean=(0.5,)),
        Rename("x", "pixels"),
        Retype("pixels", "float32", cast=True),
        AppendSoftmax("logits"),
        AppendTopK("logits_softmax", k=2),
        Retype("logits_softmax_values", "float16", cast=True),
    ]
    made, report = surgeon.edit(picture_model(), edits, check="model")
    assert report.outcome == "proved"
    assert [value.name for value in made.graph.output] == ["logits_softmax_values", "logits_softmax_indices"]


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("edit", [AppendArgMax, AppendSoftmax, AppendTopK])
@pytest.mark.parametrize("axis", [-1, 1])
def test_scores_are_read_inside(edit, axis, keep):
    given = {"k": 3} if edit is AppendTopK else {}
    made, report = surgeon.edit(head_model((7, 40)), edit("out", axis=axis, keep=keep, **given), check="model")
    assert report.outcome == "proved"
    assert ("out" in [value.name for value in made.graph.output]) is keep
    assert all(value.type.tensor_type.HasField("shape") for value in made.graph.output)


NMS = [
    ((7, 40), None, {}),
    ((40, 8), None, {"head": "yolov5"}),
    ((30, 4), (30, 3), {"scores": "scores_in"}),
    ((30, 4), (3, 30), {"scores": "scores_in", "agnostic": True, "form": "cxcywh"}),
    ((7, 40), None, {"agnostic": True, "most": 3, "iou": 0.1, "least": 0.5}),
    ((7, 40), None, {"least": 1.0}),
]


@pytest.mark.parametrize(("shape", "scores", "settings"), NMS, ids=str)
def test_detections_are_suppressed_inside(shape, scores, settings):
    edit = AppendNms("out", **settings)
    made, report = surgeon.edit(head_model(shape, scores), edit, check="model")
    assert report.outcome == "proved" or settings.get("least") == 1.0  # where nothing is detected, nothing tells
    assert [value.name for value in made.graph.output] == ["boxes", "scores", "classes", "batch"]
    assert AppendNms.parse(edit.spelling) == edit
    assert all(array.size == 0 for array in answer(made, ones(made)).values()) == (settings.get("least") == 1.0)


def segmenting(head, batch=2, classes=3, count=5, boxes=40):
    """A detector that answers with boxes, scores and coefficients of prototypes in one, and with the prototypes."""
    rows = 4 + (head == "yolov5") + classes + count
    named = {"out": [batch, rows, boxes] if head == "yolov8" else [batch, boxes, rows], "protos": [batch, count, 8, 8]}
    inputs = [helper.make_tensor_value_info(f"{name}_raw", TensorProto.FLOAT, shape) for name, shape in named.items()]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in named.items()]
    nodes = [helper.make_node("Sigmoid", [f"{name}_raw"], [name]) for name in named]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("background", ["", "first", "last"])
@pytest.mark.parametrize("head", ["yolov8", "yolov5"])
def test_what_stands_behind_the_scores_follows_its_box(head, background):
    """By hand: the row whose corners are those of the box; prototypes stay an output."""
    model = segmenting(head)
    edit = AppendNms("out", extra=5, background=background)
    made, report = surgeon.edit(model, edit, check="model")
    assert report.outcome == "proved"
    assert AppendNms.parse(edit.spelling) == edit
    assert [value.name for value in made.graph.output] == ["protos", "boxes", "scores", "classes", "batch", "extras"]
    feeds = ones(model)
    rows, found = answer(model, feeds)["out"], answer(made, feeds)
    rows = rows.transpose(0, 2, 1) if head == "yolov8" else rows
    corners = np.concatenate([rows[..., :2] - rows[..., 2:4] / 2, rows[..., :2] + rows[..., 2:4] / 2], axis=2)
    assert len(found["extras"]) > 5
    assert found["classes"].max() <= 2
    for picture, box, extras in zip(found["batch"], found["boxes"], found["extras"], strict=True):
        own = np.abs(corners[picture] - box).max(axis=1).argmin()
        np.testing.assert_array_equal(extras, rows[picture, own, -5:])


def test_coefficients_are_not_taken_for_classes(tmp_path):
    """Nor may they be left out without a word; who knows that they are classes can say so."""
    model = segmenting("yolov8")
    onnx.save(model, tmp_path / "in.onnx")
    asked = r"'protos' \[2, 5, 8, 8\] looks like mask prototypes. Use nms with extra=5, or head=yolov8 if"
    for edit in (AppendNms("out"), AppendEfficientNms("out")):
        with pytest.raises(surgeon.UsageError, match=asked):
            surgeon.edit(model, edit)
    assert surgeon.edit(model, AppendNms("out", head="yolov8"))[1].outcome == "proved"
    with pytest.raises(surgeon.UsageError, match="does not return indices of boxes"):
        AppendEfficientNms("out", extra=5)
    with pytest.raises(surgeon.UsageError, match="too few for 9 after its scores"):
        surgeon.edit(model, AppendNms("out", extra=9))
    done = run("append", tmp_path / "in.onnx", tmp_path / "out.onnx", "nms", "--extra", "5")
    assert done.exit_code == 0, done.output
    assert "PROVED" in done.output


def half_detector():
    """A head of float16 whose last node rounds what is written, and not what ONNX Runtime reads of it."""
    numbers = np.random.default_rng(2).standard_normal((20, 3, 3, 3)) / 3
    weight = numpy_helper.from_array(numbers.astype(np.float16), "w")
    nodes = [
        helper.make_node("Conv", ["images", "w"], ["c"], strides=[2, 2]),
        helper.make_node("Reshape", ["c", "flat"], ["f"]),
        helper.make_node("Sigmoid", ["f"], ["out"]),
    ]
    inputs = [helper.make_tensor_value_info("images", TensorProto.FLOAT16, [1, 3, 32, 32])]
    outputs = [helper.make_tensor_value_info("out", TensorProto.FLOAT16, [1, 20, 225])]
    flat = numpy_helper.from_array(np.array([1, 20, -1], np.int64), "flat")
    graph = helper.make_graph(nodes, "g", inputs, outputs, [weight, flat])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_detections_behind_half_precision_are_compared_with_what_the_head_writes(monkeypatch):
    """Which boxes stay hangs on the last bit, and the runtime keeps more between nodes; what is wrong still fails."""
    _, report = surgeon.edit(half_detector(), AppendNms("out"))
    assert report.outcome == "proved"
    assert report.check.reason.startswith("The added nodes were run separately, on outputs of the original")
    found = AppendNms._found

    def wrong(self, boxes, scores, first):
        return [array[1:] for array in found(self, boxes, scores, first)]

    monkeypatch.setattr(AppendNms, "_found", wrong)
    with pytest.raises(surgeon.CheckFailed, match="The edited model differs from the original: Output"):
        surgeon.edit(half_detector(), AppendNms("out"))


@pytest.mark.parametrize(("shape", "scores", "settings"), NMS[:5], ids=str)
def test_detections_of_the_plugin_are_padded(shape, scores, settings):
    edit = AppendEfficientNms("out", **settings)
    made, report = surgeon.edit(head_model(shape, scores), edit, check="model")
    assert report.outcome == "proved"
    assert report.check.oracle == "ONNX Runtime and the numpy formulas of plugins, the original under ONNX Runtime"
    node = next(node for node in made.graph.node if node.op_type == "EfficientNMS_TRT")
    assert node.domain == "trt.plugins"
    shapes = [[dim.dim_value or "batch" for dim in value.type.tensor_type.shape.dim] for value in made.graph.output]
    most = edit.most
    assert shapes == [["batch", 1], ["batch", most, 4], ["batch", most], ["batch", most]]
    assert [item.kind for item in surgeon.check(made, "tensorrt") if item.op.endswith("EfficientNMS_TRT")] in (
        [],
        ["advice"],
    )


def ones(model):
    shapes = {
        value.name: [dim.dim_value or 2 for dim in value.type.tensor_type.shape.dim] for value in model.graph.input
    }
    return {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def test_suppression_is_torchvisions():
    """Against the definition in torchvision.ops.nms: greedy by falling score, above the threshold goes."""
    boxes = np.array([[0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30], [0, 0, 10, 10], [5, 5, 5, 5]], np.float32)[None]
    scores = np.array([[[0.9, 0.8, 0.7, 0.9, 0.95]]], np.float32)
    assert overlaps(boxes[0, 0], boxes[0, 1:2])[0] == pytest.approx(81 / 119)
    limits = np.float32(0.5), np.float32(0.1)
    found = detect(boxes, scores, *limits, 10, agnostic=False)
    assert found.scores.tolist() == pytest.approx([0.95, 0.9, 0.7])
    assert found.boxes[1].tolist() == [0, 0, 10, 10]
    assert len(detect(boxes, scores, *limits, 1, agnostic=False).scores) == 1
    assert len(detect(boxes[:, :0], scores[..., :0], *limits, 10, agnostic=False).scores) == 0
    assert len(detect(np.repeat(boxes[:, :1], 5, 1), scores, *limits, 10, agnostic=False).scores) == 1


REFUSED = [
    (["prepend", "image", "--input", "image"], "did you mean 'images'"),
    (["prepend", "image", "--mean", "1,2"], "mean has 2 numbers, but 'images' has 3 channels"),
    (["prepend", "image", "--std", "0"], "must be finite and greater than 0"),
    (["prepend", "image", "--mean", "nan,0,0"], "must be a finite number for each channel"),
    (["prepend", "image", "--resize", "16"], "needs images of 32x32. Resize them to that size"),
    (["prepend", "image", "--resize", "0"], "Invalid image size '0'"),
    (["append", "argmax", "--axis", "7"], "'logits' has 2 axes, so axis 7 does not exist"),
    (["append", "argmax", "--iou", "0.5"], "argmax has no setting 'iou'"),
    (["append", "topk", "-k", "9"], "k is 9, but 'logits' has 4 values along axis 1"),
    (["append", "nms"], "No outputs are boxes"),
    (["append", "nms", "--output", "logits"], "not an output of a detector's head"),
    (["append", "softmax", "--output", "logit"], "did you mean 'logits'"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=str)
def test_bad_input_is_one_sentence(tmp_path, arguments, message):
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(picture_model(), source)
    done = run(arguments[0], source, out, *arguments[1:])
    assert done.exit_code == 2
    assert message in done.output
    assert done.output.count("\n") == 1
    assert not out.exists()


def test_a_resize_needs_its_opset():
    with pytest.raises(
        surgeon.UsageError, match="the model has opset 17. Raise it first: surgeon upgrade IN OUT --opset 18"
    ):
        surgeon.edit(picture_model(opset=17), PrependImage("images", resize=(32, 32)))


@pytest.mark.parametrize(
    ("shape", "settings", "message"),
    [
        ([1, 20, 30, 3], {}, "'x' ([1, 20, 30, 3]) looks like NHWC"),
        (["n", "h", "w", 4], {}, "'x' ([n, h, w, 4]) looks like NHWC"),
        ([1, 20, 30, 3], {"mean": (0.5, 0.5, 0.5)}, "looks like NHWC"),
        ([1, 20, 30, 40], {}, "Axis 1 of input 'x' has 20 elements, but images have 1, 3 or 4 channels"),
        ([1, 20, 30, 40], {"mean": (0.5,) * 20}, None),
        ([1, 20, 30, 3], {"std": (0.5,) * 20}, None),
        ([1, 3, 30, 3], {}, None),
        ([1, 1, 30, 40], {"mean": (0.5,)}, None),
    ],
)
def test_channels_have_to_stand_first(shape, settings, message):
    """What takes channels last would be given axes in another order; other counts of channels are stated."""
    sizes = ", ".join(map(str, shape))
    head = '<ir_version: 8, opset_import: ["": 18]> g'
    model = parse(f"{head} (float[{sizes}] x) => (float[{sizes}] y) {{ y = Neg(x) }}")
    if message is None:
        assert surgeon.edit(model, PrependImage("x", **settings), check="model")[1].outcome == "proved"
        return
    with pytest.raises(surgeon.UsageError) as refused:
        surgeon.edit(model, PrependImage("x", **settings))
    assert message in str(refused.value)


def test_another_model_is_appended(tmp_path):
    source, other, out = tmp_path / "in.onnx", tmp_path / "other.onnx", tmp_path / "out.onnx"
    onnx.save(picture_model(), source)
    named = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18]> g (float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }'
    )
    onnx.save(named, other)
    done = run("append", source, out, other)
    assert done.exit_code == 0, done.output
    assert "PROVED" in done.output
    assert [node.op_type for node in onnx.load(out).graph.node][-1] == "Relu"
    assert "has no setting 'k'. Its settings: none" in run("append", source, out, other, "-k", "2").output
    assert "unknown post-processing 'relu'" in run("append", source, out, "relu").output
    onnx.save(head_model((30, 4), (30, 3)), other)
    done = run("append", source, tmp_path / "two.onnx", other)
    assert done.exit_code == 2
    assert "use surgeon merge; it has out_raw, scores_in_raw" in done.output


def test_the_commands(tmp_path):
    source, out, report = tmp_path / "in.onnx", tmp_path / "out.onnx", tmp_path / "report.json"
    onnx.save(picture_model(), source)
    settings = ["--mean", ",".join(map(str, MEAN)), "--std", ",".join(map(str, STD)), "--resize", "32"]
    done = run("prepend", source, out, "image", *settings, "--report", report)
    assert done.exit_code == 0, done.output
    assert result_in(report.read_text())["outcome"] == "proved"
    done = run("append", out, out, "topk", "-k", "2", "--keep")
    assert done.exit_code == 0, done.output
    made = onnx.load(out)
    assert [value.name for value in made.graph.output] == ["logits", "logits_values", "logits_indices"]
    assert made.graph.input[0].type.tensor_type.elem_type == TensorProto.UINT8


def test_an_output_behind_an_inner_tensor_is_reported_to_go():
    """What is computed from it has no place any more beside what is made of it."""
    model = parse("(float[n, 4] x) => (float[n, 4] y) { h = Tanh(x) y = Neg(h) }")
    made, report = surgeon.edit(model, AppendArgMax("h"))
    assert [value.name for value in made.graph.output] == ["h_argmax"]
    assert report.edits[0].said[1:] == ("output 'y', which is computed from it, is removed",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(float[n, 3, 8, 8] x) => (float[n, 3, 8, 8] y, float[n, 3, 8, 8] x) { y = Relu(x) }", "both an input and an"),
        ("(float[1] z, float[1, 1, 1, 2] x = {1, 2}) => (float[1, 1, 1, 2] y) { y = Add(x, z) }", "a default value"),
    ],
    ids=["output too", "default"],
)
def test_pictures_are_put_in_front_of_what_has_to_be_given_alone(text, why):
    """An output of that name would bear another, and a stored value would be made twice."""
    with pytest.raises(surgeon.UsageError, match=why):
        surgeon.edit(parse(text), PrependImage("x"))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PrependImage("x", resize=8), "Invalid resize of PrependImage: expected two integers, or None, got 8"),
        (lambda: PrependImage("x", resize=(8, 8.0)), "resize of PrependImage: expected two integers"),
        (lambda: PrependImage("x", mean=0.5), "mean of PrependImage: expected a list of numbers, got 0.5"),
        (lambda: AppendNms("y", most="all"), "most of AppendNms: expected an integer, got 'all'"),
        (lambda: AppendNms("y", iou=None), "iou of AppendNms: expected a number, got None"),
        (lambda: surgeon.edit(picture_model(), Free(1, "n", 0)), "input of Free: expected a string, or None, got 0"),
    ],
    ids=["resize", "resize of floats", "mean", "most", "iou", "input"],
)
def test_settings_of_another_kind_are_reported(make, words):
    with pytest.raises(surgeon.UsageError, match=words):
        make()
