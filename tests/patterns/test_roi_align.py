"""RoIAlign: what is written for ONNX and for TensorRT, what does not match and why."""

import numpy as np
import onnx
import pytest
from surgeon.patterns.vision.roi_align import roi_align

import surgeon
from surgeon.runtime.kernels.vision.roi_align import regions
from surgeon.testing import Case, check_spares, parse
from tests.patterns.formulas import check_by_formula

BOXES = "float[n, 3, 8, 7] x, float[k, 5] b"
CORNERS = "float[n, 3, 8, 7] x, float[k, 4] b, int64[k] i"


def graph(body, inputs=BOXES, opset=16, dtype="float"):
    """A model of one call."""
    domains = '"torchvision" : 1, "mmcv" : 1, "mmdeploy" : 1, "trt.plugins" : 1'
    header = f'<ir_version: 8, opset_import: ["" : {opset}, {domains}]> g'
    return parse(f"{header} ({inputs}) => ({dtype}[k, 3, 2, 3] y) {{ {body} }}".replace("float[", f"{dtype}["))


def placeholder(ratio=2, aligned=1, scale=0.5):
    sizes = "pooled_height = 2, pooled_width = 3"
    settings = f"spatial_scale = {scale:.3f}, {sizes}, sampling_ratio = {ratio}, aligned = {aligned}"
    return f"y = torchvision.roi_align<{settings}>(x, b)"


def mmcv(domain="mmcv", mode="avg", ratio=0):
    sizes = "output_height = 2, output_width = 3, spatial_scale = 0.25"
    return f'y = {domain}.MMCVRoiAlign<{sizes}, sampling_ratio = {ratio}, mode = "{mode}", aligned = 1>(x, b)'


VERSION = 'plugin_version = "2", plugin_namespace = ""'
SETTINGS = f"sampling_ratio = 2, spatial_scale = 0.5, coordinate_transformation_mode = 1, mode = 1, {VERSION}"
PLUGIN = f"y = trt.plugins.ROIAlign_TRT<output_height = 2, output_width = 3, {SETTINGS}>(x, b, i)"
OF_PLUGIN = CORNERS.replace("int64", "int32")

# fmt: off
FIRES = [
    Case(roi_align, "moved by half a pixel", graph(placeholder()), target="onnx"),
    Case(roi_align, "not moved, as many points as pixels", graph(placeholder(-1, 0, 0.25)), target="onnx"),
    Case(roi_align, "moved, as many points as pixels", graph(placeholder(0, 1)), target="onnx"),
    Case(roi_align, "not moved, before opset 16", graph(placeholder(2, 0), opset=11), target="onnx"),
    Case(roi_align, "at opset 22", graph(placeholder(), opset=22), target="onnx"),
    Case(roi_align, "mmcv's node", graph(mmcv()), target="onnx"),
    Case(roi_align, "mmdeploy's node", graph(mmcv("mmdeploy", ratio=2)), target="onnx"),
    Case(roi_align, "the plugin back to ONNX", graph(PLUGIN, OF_PLUGIN), target="onnx"),
    Case(roi_align, "to the plugin", graph(placeholder()), target="tensorrt"),
    Case(roi_align, "to the plugin, not moved", graph(placeholder(0, 0)), target="tensorrt"),
    Case(roi_align, "to the plugin, empty boxes by hand", graph(placeholder(0, 1)), target="tensorrt"),
    Case(roi_align, "to the plugin, mmcv's node", graph(mmcv()), target="tensorrt"),
]
NEGATIVES = [
    Case(roi_align, "boxes without their image", why="the first of five columns",
         model=graph(placeholder(), BOXES.replace("k, 5", "k, 4"))),
    Case(roi_align, "half a pixel in an older opset", graph(placeholder(), opset=13), why="before opset 16"),
    Case(roi_align, "an argument lost", graph(placeholder().replace(", aligned = 1", "")), why="lacks aligned"),
    Case(roi_align, "the largest of each cell", graph(mmcv(mode="max")), why="computes the maximum"),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_by_formula(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def _at(image, y, x):
    """The channels of [channels, rows, columns] at one point, as bilinear_interpolate of torchvision goes about it."""
    rows, columns = image.shape[1:]
    if y < -1 or y > rows or x < -1 or x > columns:
        return np.zeros(len(image))
    y, x = max(y, 0), max(x, 0)
    low, left = int(y), int(x)
    if low >= rows - 1:
        high = low = rows - 1
        y = low
    else:
        high = low + 1
    if left >= columns - 1:
        right = left = columns - 1
        x = left
    else:
        right = left + 1
    down, along = y - low, x - left
    upper = (1 - along) * image[:, low, left] + along * image[:, low, right]
    return (1 - down) * upper + down * ((1 - along) * image[:, high, left] + along * image[:, high, right])


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("ratio", [-1, 0, 1, 3])
def test_the_formula_is_that_of_torchvision(ratio, aligned):
    """Point after point, as its kernel goes over them; boxes are within, across the edges, beyond, empty and turned."""
    rng = np.random.default_rng(0)
    x, scale = rng.normal(size=(2, 3, 6, 9)), 0.5
    boxes = np.concatenate([rng.uniform(-6, 24, size=(20, 4)), [[4, 4, 4, 8], [9, 3, 2, 1], [40, 40, 50, 60]]])
    images = rng.integers(0, 2, size=len(boxes))
    wanted = np.zeros((len(boxes), 3, 2, 3))
    for k, (left, top, right, bottom) in enumerate(boxes * scale - 0.5 * aligned):
        height, width = bottom - top, right - left
        if not aligned:
            height, width = max(height, 1.0), max(width, 1.0)
        tall, wide = height / 2, width / 3
        down, across = (ratio, ratio) if ratio > 0 else (int(np.ceil(height / 2)), int(np.ceil(width / 3)))
        for p, q in np.ndindex(2, 3):
            total = np.zeros(3)
            for i in range(down):
                y = top + p * tall + (i + 0.5) * tall / down
                for j in range(across):
                    total += _at(x[images[k]], y, left + q * wide + (j + 0.5) * wide / across)
            wanted[k, :, p, q] = total / max(down * across, 1)
    found = regions(x, boxes, images, scale=scale, height=2, width=3, ratio=ratio, aligned=aligned)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_the_plugin_is_as_tensorrt_declares_it():
    """All six fields, and where its creator is looked up; and nothing is said against the op or the plugin."""
    for target, op in (("tensorrt", "ROIAlign_TRT"), ("onnx", "RoiAlign")):
        made, _ = surgeon.rewrite(graph(placeholder()), roi_align, target=target)
        node = made.graph.node[-1]
        attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
        sizes = {"spatial_scale": 0.5, "output_height": 2, "output_width": 3, "sampling_ratio": 2}
        if target == "tensorrt":
            own = {"coordinate_transformation_mode": 1, "mode": 1, "plugin_version": b"2", "plugin_namespace": b""}
        else:
            own = {"coordinate_transformation_mode": b"half_pixel"}
        assert (node.op_type, attributes) == (op, {**sizes, **own})
        assert not [one.reason for one in surgeon.check(made, "tensorrt") if one.stops]


def test_an_empty_box_is_zero_everywhere():
    """Where the plugin itself divides nothing by nothing."""
    x, box = np.ones((1, 1, 4, 4), np.float32), np.float32([[2, 2, 2, 3]])
    sizes = {"scale": 1.0, "height": 2, "width": 2, "ratio": 0, "aligned": 1}
    assert not regions(x, box, np.zeros(1), **sizes).any()
    assert np.isnan(regions(x, box, np.zeros(1), divides_by_none=True, **sizes)).all()
    report = surgeon.rewrite(graph(placeholder(0, 1)), roi_align, target="tensorrt")[1]
    assert report.outcome == "proved"
