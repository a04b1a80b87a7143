"""RoIAlign (He et al., arXiv:1703.06870), as an export without torchvision's own symbolic functions left it."""

import numpy as np

from surgeon import Captures, Graph, Tensor, dims, require, rule


class Regions(Captures):
    x: Tensor = dims("batch channels rows columns")
    boxes: Tensor = dims("count 5")
    scale: float
    height: int
    width: int
    ratio: int
    aligned: int


def placeholder(g: Graph, m: Regions) -> Tensor:
    """torchvision::roi_align, its arguments by the names of its schema."""
    sizes = {"pooled_height": m.height, "pooled_width": m.width, "sampling_ratio": m.ratio}
    return g.op("torchvision::roi_align", m.x, m.boxes, spatial_scale=m.scale, aligned=m.aligned, **sizes)


@rule(patterns=[placeholder], target="any", differs={"non_finite": "ONNX Runtime refuses boxes that are no numbers"})
def roi_align(g: Graph, m: Regions) -> Tensor:
    """Write RoiAlign; the first column of the boxes says which image each is of."""
    require(m.match.opset >= 16 or not m.aligned, "before opset 16 RoiAlign does not shift by half a pixel")
    images, boxes = g.split(m.boxes, [1, 4], axis=1, outputs=2)
    mode = {"coordinate_transformation_mode": "half_pixel" if m.aligned else "output_half_pixel"}
    return g.roi_align(
        m.x, boxes, g.squeeze(g.cast(images, to=np.int64), [1]), spatial_scale=m.scale, output_height=m.height,
        output_width=m.width, sampling_ratio=max(m.ratio, 0), **(mode if m.match.opset >= 16 else {}),
    )  # fmt: skip
