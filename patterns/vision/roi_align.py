"""RoIAlign (He et al., "Mask R-CNN", arXiv:1703.06870)."""

from typing import Any, NamedTuple

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule

TORCHVISION = ("spatial_scale", "pooled_height", "pooled_width", "sampling_ratio", "aligned")
MMCV = ("spatial_scale", "output_height", "output_width", "sampling_ratio", "aligned", "mode")
PLUGIN = (*MMCV[:4], "coordinate_transformation_mode", "mode")
VERSION: dict[str, Any] = {"plugin_version": "2", "plugin_namespace": ""}  # version 2 is in TensorRT 10.1 and newer
DIFFERS = {"non_finite": "ONNX Runtime refuses boxes with NaN"}


class RoiAlign(Captures):
    """Images, boxes, and the image of each box, unless the first of five columns of the boxes is the image."""

    x: Tensor
    boxes: Tensor
    images: Tensor | None = None
    settings: dict[str, Any]


def torchvision(g: Graph, m: RoiAlign) -> Any:
    """The placeholder of `torchvision::roi_align`, with its arguments by the names of the C++ schema."""
    return g.op("*::roi_align", m.x, m.boxes, **m.settings)


def mmcv(g: Graph, m: RoiAlign) -> Any:
    """The node that mmcv and mmdeploy export."""
    return g.op("*::MMCVRoiAlign", m.x, m.boxes, **m.settings)


def plugin(g: Graph, m: RoiAlign) -> Any:
    """The node of the TensorRT plugin."""
    return g.op("trt.plugins::ROIAlign_TRT", m.x, m.boxes, m.images, **m.settings)


class RoiAlignCall(NamedTuple):
    """A call in one form: output size, number of samples, and scale and shift of the boxes."""

    scale: float
    """Scale from the coordinates of the boxes to those of the input."""
    height: int
    """Rows of an output."""
    width: int
    """Columns of an output."""
    ratio: int
    """Samples per cell and axis.  0 means as many as the size of the cell."""
    aligned: bool
    """Whether boxes are shifted by half a pixel."""


def call_of(m: RoiAlign) -> RoiAlignCall:
    """Return the matched call.  Refuse a call that lost arguments in the export: it would mean something else."""
    settings = m.settings
    names = next((names for names in (PLUGIN, MMCV) if names[-2] in settings and "mode" in settings), TORCHVISION)
    lost = [name for name in names if name not in settings]
    require(not lost, f"the node lacks {', '.join(lost)}; export it again with every argument by name")
    require(settings.get("mode", "avg") in ("avg", 1), "it computes the maximum of a cell, not the mean")
    scale, height, width, ratio, aligned = (settings[name] for name in names[:5])
    return RoiAlignCall(scale, height, width, ratio=max(ratio, 0), aligned=bool(aligned))


def parts_of(g: Graph, m: RoiAlign, dtype: Any) -> tuple[Tensor, Tensor]:
    """Return the corners of the boxes, and the image of each box."""
    if m.images is not None:
        return m.boxes, g.cast(m.images, to=dtype)
    require(m.boxes.rank == 2 and m.boxes.shape[1] == 5, "the boxes must have the image as the first of five columns")
    images, corners = g.split(m.boxes, [1, 4], axis=1, outputs=2)
    return corners, g.cast(g.squeeze(images, [1]), to=dtype)


@rule(patterns=[torchvision, mmcv], target="onnx", opset=10, differs=DIFFERS)
def roi_align(g: Graph, m: RoiAlign) -> Tensor:
    """Write a RoIAlign that was exported as a placeholder as RoiAlign, or as a TensorRT plugin.

    What: RoIAlign of torchvision and of mmcv.  Each box is divided into cells, and each cell is the mean of
    interpolated samples.
    Numerics: rounding only.
    TensorRT: the plugin ROIAlign_TRT (version 2 needs TensorRT 10.1).  For an empty box it computes 0/0, but other
    runtimes give zeros, so the rule inserts zeros.
    """
    call = call_of(m)
    require(m.match.opset >= 16 or not call.aligned, "before opset 16 RoiAlign cannot shift boxes by half a pixel")
    mode = {"coordinate_transformation_mode": "half_pixel" if call.aligned else "output_half_pixel"}
    corners, images = parts_of(g, m, np.int64)
    return g.roi_align(
        m.x,
        corners,
        images,
        spatial_scale=call.scale,
        output_height=call.height,
        output_width=call.width,
        sampling_ratio=call.ratio,
        **(mode if m.match.opset >= 16 else {}),
    )


@roi_align.on("tensorrt", patterns=[plugin])
def _(g: Graph, m: RoiAlign) -> Any:
    call = call_of(m)
    corners, images = parts_of(g, m, np.int32)
    sizes: dict[str, Any] = dict(zip(PLUGIN, (*call[:4], int(call.aligned), 1), strict=True))
    made = g.op("trt.plugins::ROIAlign_TRT", m.x, corners, images, **sizes, **VERSION)
    if not call.aligned or call.ratio:
        return made
    starts, ends = g.split(g.sub(g.mul(corners, call.scale), 0.5), [2, 2], axis=1, outputs=2)
    is_empty = g.reduce_max(g.cast(g.less_or_equal(ends, starts), to=np.int32), [1], keepdims=0)
    return g.where(g.reshape(g.cast(is_empty, to=bool), [-1, 1, 1, 1]), np.zeros((), m.x.dtype), made)
