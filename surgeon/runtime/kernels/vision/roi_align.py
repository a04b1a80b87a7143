"""RoIAlign as a numpy formula, with the interfaces of several operators.

Source: He et al., "Mask R-CNN" (arXiv:1703.06870), section 3, as torchvision's own kernel computes it
(torchvision/csrc/ops/cpu/roi_align_kernel.cpp and roi_align_common.h).  mmcv and ONNX Runtime follow the same code.  So
does TensorRT's plugin ROIAlign_TRT (plugin/roiAlignPlugin), except for empty boxes.
"""

from typing import Any

import numpy as np

from surgeon.runtime.kernels.erf import Array


def regions(
    x: Array,
    boxes: Array,
    images: Array,
    *,
    scale: float,
    height: int,
    width: int,
    ratio: int,
    aligned: int,
    divides_by_none: bool = False,
) -> Array:
    """Divide each box into height · width cells, and average `ratio`² samples of each cell.

    x: [N, C, H, W].  boxes: [K, 4] as x1, y1, x2, y2, in pixels after scaling.  images: [K], the image of each box.
    ratio: samples along the height and the width of a cell; 0 or less for one per pixel.  aligned: boxes are shifted by
    half a pixel; otherwise they are at least one pixel wide and high.  divides_by_none: a box without samples is 0/0,
    not 0.  An image is bilinear between pixels, constant up to one pixel beyond its edge, and zero farther out.
    Returns [K, C, height, width] in x's dtype.  Raises ValueError for an image that does not exist.
    """
    of = images.astype(np.int64)
    if ((of < 0) | (of >= len(x))).any():
        raise ValueError(f"boxes refer to images {sorted(set(of.tolist()))}, but the batch has {len(x)}")
    made = np.zeros((len(boxes), x.shape[1], height, width), x.dtype)
    for place, corners in enumerate(boxes * boxes.dtype.type(scale) - boxes.dtype.type(0.5 * bool(aligned))):
        if not np.isfinite([*corners, *(corners[2:] - corners[:2])]).all():
            made[place] = np.nan
            continue
        looks, count = [], 1
        for start, end, cells, length in zip(corners[1::-1], corners[:1:-1], (height, width), x.shape[2:], strict=True):
            size = (end - start if aligned else max(end - start, 1)) / cells
            points = ratio if ratio > 0 else int(np.ceil(size))
            looks.append(_looks(start, size, cells, points=points, length=length).astype(x.dtype))
            count *= points
        with np.errstate(invalid="ignore"):
            total = np.einsum("pr,crs,qs->cpq", looks[0], x[of[place]], looks[1])
            made[place] = total / x.dtype.type(count if divides_by_none else max(count, 1))
    return made


def _looks(start: float, size: float, cells: int, points: int, length: int) -> Array:
    """The weight of each pixel of an axis in each cell, summed over the cell's samples: [cells, length]."""
    within = (np.arange(max(points, 0)) + 0.5) / max(points, 1)
    at = start + (np.arange(cells)[:, None] + within) * size
    is_near = (at >= -1) & (at <= length)
    at = np.where(is_near, np.clip(at, 0, length - 1), 0)
    low = at.astype(np.int64)
    seen = np.zeros((cells, length))
    rows = np.arange(cells)[:, None]
    np.add.at(seen, (rows, low), np.where(is_near, 1 - (at - low), 0))
    np.add.at(seen, (rows, np.minimum(low + 1, length - 1)), np.where(is_near, at - low, 0))
    return seen


def torchvision_roi_align(
    x: Array,
    boxes: Array,
    *,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: int,
) -> Array:
    """`torchvision::roi_align`; the first of the five columns of boxes is the image."""
    return regions(
        x,
        boxes[:, 1:],
        boxes[:, 0],
        scale=spatial_scale,
        height=pooled_height,
        width=pooled_width,
        ratio=sampling_ratio,
        aligned=aligned,
    )


def mmcv_roi_align(
    x: Array,
    boxes: Array,
    *,
    output_height: int,
    output_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    mode: str,
    aligned: int,
) -> Array:
    """`mmcv::MMCVRoiAlign` (mmcv/ops/roi_align.py), only its average mode."""
    if mode != "avg":
        raise ValueError(f"unsupported mode {mode!r}, expected 'avg'")
    return regions(
        x,
        boxes[:, 1:],
        boxes[:, 0],
        scale=spatial_scale,
        height=output_height,
        width=output_width,
        ratio=sampling_ratio,
        aligned=aligned,
    )


def tensorrt_roi_align(
    x: Array,
    boxes: Array,
    images: Array,
    *,
    coordinate_transformation_mode: int,
    mode: int,
    output_height: int,
    output_width: int,
    sampling_ratio: int,
    spatial_scale: float,
    **_: Any,
) -> Array:
    """TensorRT's plugin ROIAlign_TRT (plugin/roiAlignPlugin/roiAlignKernel.cu), only its average mode."""
    if mode != 1:
        raise ValueError(f"unsupported mode {mode}, expected 1 (average)")
    return regions(
        x,
        boxes,
        images,
        scale=spatial_scale,
        height=output_height,
        width=output_width,
        ratio=sampling_ratio,
        aligned=coordinate_transformation_mode,
        divides_by_none=True,
    )
