"""What the columns of a detector's one output are, by the nodes that compute them; finished detections are refused."""

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
from onnx import numpy_helper

import surgeon
from surgeon.edits import AppendBoxes, AppendNms, detector_tail
from surgeon.errors import UsageError

COUNT, CLASSES = 12, 3
RAW = """
    cells = Conv <kernel_shape = [4, 4], strides = [4, 4]> (images, W)  rows = Reshape (cells, flat)
    near, far, some = Split <axis = 1> (rows, parts)
    low = Sub (anchors, near)  high = Add (anchors, far)
"""
CORNERS = RAW + """
    both = Concat <axis = 1> (low, high)  sized = Mul (both, stride)  likely = Sigmoid (some)
    boxes = Transpose <perm = [0, 2, 1]> (sized)  scores = Transpose <perm = [0, 2, 1]> (likely)
"""
CENTRES = RAW + """
    sum = Add (low, high)  middle = Div (sum, two)  size = Sub (high, low)
    both = Concat <axis = 1> (middle, size)  sized = Mul (both, stride)  likely = Sigmoid (some)
"""
BEST = CORNERS + """
    largest = ReduceMax <keepdims = 0> (scores, last)  _, first = TopK <axis = 1> (largest, few)
    places = Unsqueeze (first, last)  wide = Tile (places, four)  deep = Tile (places, three)
    near_boxes = GatherElements <axis = 1> (boxes, wide)  near_scores = GatherElements <axis = 1> (scores, deep)
    flattened = Flatten <axis = 1> (near_scores)  best, index = TopK <axis = 1> (flattened, few)
    row = Div (index, classes)  number = Mod (index, classes)  rows_of = Unsqueeze (row, last)
    wide_rows = Tile (rows_of, four)  chosen = GatherElements <axis = 1> (near_boxes, wide_rows)
    column = Unsqueeze (best, last)  typed = Cast <to = 1> (number)  label = Unsqueeze (typed, last)
"""


def detector(nodes, shape, channels=4 + CLASSES):
    """A detector of 12 boxes with random weights, of these nodes behind its input."""
    sizes = ", ".join(map(str, shape))
    made = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 18]>
        g (float[1, 3, 12, 16] images) => (float[{sizes}] out)
        <int64[3] flat = {{1, {channels}, {COUNT}}}, int64[3] parts = {{2, 2, {channels - 4}}}, float stride = {{4}},
         float two = {{2}}, float half = {{0.5}}, float pi = {{3.14}}, int64[1] last = {{-1}}, int64[1] few = {{5}},
         int64[3] four = {{1, 1, 4}}, int64[3] three = {{1, 1, {CLASSES}}}, int64 classes = {{{CLASSES}}},
         float wide_classes = {{{CLASSES}}}, int64[2] apart = {{1, {CLASSES}}},
         int64[4] four_parts = {{2, 2, 1, {channels - 5}}}>
        {{ {nodes} }}
    """)
    random = np.random.default_rng(2)
    stored = {
        "W": random.standard_normal((channels, 3, 4, 4)) / 4,
        "anchors": random.random((1, 2, COUNT)) * 8,
    }
    made.graph.initializer.extend(numpy_helper.from_array(x.astype(np.float32), name) for name, x in stored.items())
    return made


def answer(model):
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    picture = np.random.default_rng(3).standard_normal((1, 3, 12, 16)).astype(np.float32)
    return dict(zip([one.name for one in session.get_outputs()], session.run(None, {"images": picture}), strict=True))


FINISHED = {
    "corners, score, class": (BEST + "out = Concat <axis = 2> (chosen, column, label)", (1, 5, 6), 5, 4),
    "class, score, corners": (BEST + "out = Concat <axis = 2> (label, column, chosen)", (1, 5, 6), 0, 1),
    "class as a float that is divided": (
        BEST + """real = Cast <to = 1> (index)  parts_of = Div (real, wide_classes)  whole = Floor (parts_of)
            named = Unsqueeze (whole, last)  out = Concat <axis = 2> (chosen, column, named)""",
        (1, 5, 6),
        5,
        4,
    ),
    "all boxes, each with its best class": (
        CORNERS + """best = ReduceMax <keepdims = 1> (scores, last)
            which = ArgMax <axis = 2> (scores)  label = Cast <to = 1> (which)
            out = Concat <axis = 2> (boxes, best, label)""",
        (1, COUNT, 6),
        5,
        4,
    ),
    "columns first": (
        BEST + """joined = Concat <axis = 2> (chosen, column, label)
            more = Concat <axis = 1> (joined, joined)  out = Transpose <perm = [0, 2, 1]> (more)""",
        (1, 6, 10),
        5,
        4,
    ),
}


@pytest.mark.parametrize("tail", ["nms", "boxes", "best-boxes"])
@pytest.mark.parametrize("form", FINISHED)
def test_finished_detections_are_refused_with_the_raw_tensors(form, tail):
    nodes, shape, number, best = FINISHED[form]
    model = detector(nodes, shape)
    with pytest.raises(UsageError) as refusal:
        surgeon.edit(model, detector_tail(model, tail))
    message = str(refusal.value)
    assert f"column {number} is a class number and column {best} is the best of several scores" in message
    assert message.endswith(f"surgeon append IN OUT {tail} --output boxes --scores scores")
    made, report = surgeon.edit(model, detector_tail(model, tail, output="boxes", scores="scores"))
    assert report.outcome == "proved", report.check.reason
    if tail == "boxes":
        inner = onnx.ModelProto()
        inner.CopyFrom(model)
        inner.graph.output.extend(onnx.helper.make_tensor_value_info(name, 1, None) for name in ("boxes", "scores"))
        wanted, found = answer(inner), list(answer(made).values())
        np.testing.assert_array_equal(found[0], wanted["boxes"])
        np.testing.assert_array_equal(found[1], wanted["scores"])


APART = {
    "a score and a class beside each box": "chosen, column, label",
    "the best score beside each box": "boxes, best, which",
}


@pytest.mark.parametrize("form", APART)
def test_finished_detections_in_several_outputs_are_refused_too(form):
    names = APART[form].split(", ")
    nodes = BEST if "label" in names else CORNERS + """
        best = ReduceMax <keepdims = 1> (scores, last)  places = ArgMax <axis = 2> (scores)
        which = Cast <to = 1> (places)"""
    model = detector(nodes + "out = Identity (sized)", (1, 4, COUNT))
    count = 5 if "label" in names else COUNT
    del model.graph.output[:]
    sizes = zip(names, (4, 1, 1), strict=True)
    model.graph.output.extend(onnx.helper.make_tensor_value_info(name, 1, [1, count, size]) for name, size in sizes)
    with pytest.raises(UsageError, match="are finished detections. Give the raw tensors"):
        detector_tail(model)


TRANSPOSED = "all = Concat <axis = 1> (sized, {rest})  out = Transpose <perm = [0, 2, 1]> (all)"
HEADS = {
    "YOLOv8": (CENTRES + "out = Concat <axis = 1> (sized, likely)", (1, 7, COUNT), 7, "yolov8", True),
    "YOLOv8 by corners": (
        CORNERS + "out = Concat <axis = 1> (sized, likely)",
        (1, 7, COUNT),
        7,
        "yolov8",
        False,
    ),
    "YOLOX": (
        CENTRES.replace("likely = Sigmoid (some)", "thing, kind = Split <axis = 1> (some, apart)")
        + "a = Sigmoid (thing)  b = Sigmoid (kind)"
        + TRANSPOSED.format(rest="a, b"),
        (1, COUNT, 8),
        8,
        "yolov5",
        True,
    ),
    "YOLOX before its cells are laid flat": (
        """cells = Conv <kernel_shape = [4, 4], strides = [4, 4]> (images, W)
        xy, wh, thing, kind = Split <axis = 1> (cells, four_parts)
        middle = Mul (xy, stride)  size = Exp (wh)  a = Sigmoid (thing)  b = Sigmoid (kind)
        all = Concat <axis = 1> (middle, size, a, b)  back = Reshape (all, flat)
        out = Transpose <perm = [0, 2, 1]> (back)""",
        (1, COUNT, 8),
        8,
        "yolov5",
        True,
    ),
    "YOLOv5": (
        """cells = Conv <kernel_shape = [4, 4], strides = [4, 4]> (images, W)  rows = Reshape (cells, flat)
        turned = Transpose <perm = [0, 2, 1]> (rows)  every = Sigmoid (turned)
        xy, wh, rest = Split <axis = 2> (every, parts)  twice = Mul (xy, two)  less = Sub (twice, half)
        middle = Mul (less, stride)  double = Mul (wh, two)  square = Pow (double, two)
        out = Concat <axis = 2> (middle, square, rest)""",
        (1, COUNT, 8),
        8,
        "yolov5",
        True,
    ),
}


@pytest.mark.parametrize("name", HEADS)
def test_raw_heads_are_known_by_what_computes_their_columns(name):
    nodes, shape, channels, head, centred = HEADS[name]
    model = detector(nodes, shape, channels)
    made, report = surgeon.edit(model, AppendBoxes("out"))
    assert report.outcome == "proved", report.check.reason
    rows = answer(model)["out"]
    rows = rows.transpose(0, 2, 1) if head == "yolov8" else rows
    boxes, scores = rows[..., :4], rows[..., 4:]
    if centred:
        half = boxes[..., 2:] / 2
        boxes = np.concatenate([boxes[..., :2] - half, boxes[..., :2] + half], 2)
    scores = scores[..., 1:] * scores[..., :1] if head == "yolov5" else scores
    found = list(answer(made).values())
    np.testing.assert_allclose(found[0], boxes, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[1], scores, rtol=1e-5, atol=1e-6)


OTHERS = {
    "classes without objectness in rows": (
        CENTRES + TRANSPOSED.format(rest="likely"),
        (1, COUNT, 7),
        "has no objectness in column 4",
    ),
    "an angle behind the scores": (
        CENTRES + "turn = ReduceMean <keepdims = 1> (near, row)  angle = Mul (turn, pi)"
        "out = Concat <axis = 1> (sized, likely, angle)",
        (1, 8, COUNT),
        "Column 7 of 'out' is a number, but not a score",
    ),
    "keypoints behind the score": (
        CENTRES + "points = Add (both, anchors_twice)  out = Concat <axis = 1> (sized, likely, points)",
        (1, 11, COUNT),
        "Column 7 of 'out' is a number, but not a score",
    ),
    "scores that are logits": (
        CENTRES + "out = Concat <axis = 1> (sized, some)",
        (1, 7, COUNT),
        "Column 4 of 'out'",
    ),
    "an angle that is a share of a turn": (
        CENTRES + "turn = ReduceMean <keepdims = 1> (near, row)  share = Sigmoid (turn)  less = Sub (share, half)"
        "angle = Mul (less, pi)  out = Concat <axis = 1> (sized, likely, angle)",
        (1, 8, COUNT),
        "Column 7 of 'out' is a number, but not a score",
    ),
    "a share that is scaled": (
        CENTRES + "turn = ReduceMean <keepdims = 1> (near, row)  share = Sigmoid (turn)  angle = Mul (share, pi)"
        "out = Concat <axis = 1> (sized, likely, angle)",
        (1, 8, COUNT),
        "Column 7 of 'out' is a number, but not a score",
    ),
    "corners by coordinates": (
        CORNERS + """x1, y1 = Split <axis = 1, num_outputs = 2> (low)  x2, y2 = Split <axis = 1, num_outputs = 2> (high)
        lying = Concat <axis = 1> (x1, x2, y1, y2)  out = Concat <axis = 1> (lying, likely)""",
        (1, 7, COUNT),
        "does not show the box format of 'out'",
    ),
    "corners at exponential distances, by coordinates": (
        CORNERS.replace("Sub (anchors, near)", "Sub (anchors, left)").replace("low = ", "left = Exp (near)  low = ")
        + """x1, y1 = Split <axis = 1, num_outputs = 2> (low)  x2, y2 = Split <axis = 1, num_outputs = 2> (high)
        lying = Concat <axis = 1> (x1, x2, y1, y2)  out = Concat <axis = 1> (lying, likely)""",
        (1, 7, COUNT),
        "does not show the box format of 'out'",
    ),
    "the first class last": (
        CENTRES + "one, more = Split <axis = 1> (likely, first_and_rest)  out = Concat <axis = 1> (sized, more, one)",
        (1, 7, COUNT),
        "Column 6 of 'out' is a score, but not of the class that follows column 5",
    ),
    "how likely there is anything last": (
        CENTRES + "turn = ReduceMean <keepdims = 1> (near, row)  thing = Sigmoid (turn)"
        "out = Concat <axis = 1> (sized, likely, thing)",
        (1, 8, COUNT),
        "Column 7 of 'out' is a score, but not of the class that follows column 6",
    ),
    "scores that are products already": (
        CENTRES + "turn = ReduceMean <keepdims = 1> (near, row)  thing = Sigmoid (turn)  products = Mul (thing, likely)"
        + TRANSPOSED.format(rest="thing, products"),
        (1, COUNT, 8),
        "The scores of 'out' from column 5 on are already multiplied by column 4",
    ),
    "boxes in a form of their own": (
        CENTRES.replace("Sub (high, low)", "Tanh (near)") + "out = Concat <axis = 1> (sized, likely)",
        (1, 7, COUNT),
        "does not show the box format of 'out'",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_columns_of_another_kind_are_refused_with_their_place(name):
    nodes, shape, reported = OTHERS[name]
    nodes = nodes.replace("anchors_twice", "stride").replace("(near, row)", "(near, first)")
    nodes = "first = Constant <value_ints = [1]> ()  first_and_rest = Constant <value_ints = [1, 2]> ()" + nodes
    with pytest.raises(UsageError) as refusal:
        surgeon.edit(detector(nodes, shape), AppendNms("out"))
    assert reported in str(refusal.value)
