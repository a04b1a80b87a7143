"""Deformable convolution and attention as numpy formulas, in the argument orders of their operators.

Sources: Dai et al., "Deformable Convolutional Networks" (arXiv:1703.06211), eq. 2 and 3; with a mask, Zhu et al.,
"Deformable ConvNets v2" (arXiv:1811.11168), eq. 1; attention over several levels, Zhu et al., "Deformable DETR"
(arXiv:2010.04159), eq. 3.  Offsets are (y, x) for each kernel element, as in torchvision, mmcv, ONNX's DeformConv and
TensorRT's ModulatedDeformConv2d.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from surgeon.runtime.kernels.erf import Array


def deformable_convolution(
    x: Array,
    weight: Array,
    offset: Array,
    mask: Array | None,
    bias: Array | None,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    group: int,
    offset_group: int,
) -> Array:
    """Sum, for each output pixel, the weighted input at the kernel's elements, each shifted by its own offset.

    x: [N, C, H, W].  weight: [M, C/group, kh, kw].  offset: [N, 2·offset_group·kh·kw, H', W'] in pixels.  mask: [N,
    offset_group·kh·kw, H', W'], None for ones.  bias: [M].  strides, pads, dilations: for height and width; pads are
    the same on both sides.  The input is bilinear between pixels, and zero beyond its edge.

    Returns [N, M, H', W'] in x's dtype.  Raises ValueError for shapes that do not fit together.
    """
    images, channels, _, _ = x.shape
    filters, _, kernel_height, kernel_width = weight.shape
    taps = kernel_height * kernel_width
    height, width = offset.shape[2:]
    moved = offset.reshape((images, offset_group, taps, 2, height, width))
    at_height = np.arange(kernel_height).repeat(kernel_width)[:, None, None] * dilations[0]
    at_width = np.tile(np.arange(kernel_width), kernel_height)[:, None, None] * dilations[1]
    ys = at_height + (np.arange(height) * strides[0] - pads[0])[None, :, None] + moved[:, :, :, 0]
    xs = at_width + (np.arange(width) * strides[1] - pads[1])[None, None, :] + moved[:, :, :, 1]
    seen = bilinear(x.reshape(images, offset_group, channels // offset_group, *x.shape[2:]), ys, xs)
    if mask is not None:
        seen = seen * mask.reshape((images, offset_group, 1, taps, height, width))
    seen = seen.reshape((images, group, channels // group, taps, height, width))
    kernels = weight.reshape(group, filters // group, channels // group, taps)
    made = np.einsum("ngctyx,gfct->ngfyx", seen, kernels).reshape(images, filters, height, width)
    if bias is not None:
        made = made + bias.reshape(1, -1, 1, 1)
    return made.astype(x.dtype)


def bilinear(x: Array, ys: Array, xs: Array) -> Array:
    """Sample x [N, G, C, H, W] at fractional coordinates [N, G, T, H', W']: [N, G, C, T, H', W']."""
    tall, wide = x.shape[3:]
    top, left = np.floor(ys), np.floor(xs)
    nowhere = np.where(np.isfinite(ys) & np.isfinite(xs), 0, np.nan)[:, :, None]  # NaN for invalid coordinates
    images = np.arange(x.shape[0]).reshape((-1, 1, 1, 1, 1))
    groups = np.arange(x.shape[1]).reshape((1, -1, 1, 1, 1))
    found: Array = 0
    for row, by_row in ((top, 1 - (ys - top)), (top + 1, ys - top)):
        for column, by_column in ((left, 1 - (xs - left)), (left + 1, xs - left)):
            inside = (row >= 0) & (row < tall) & (column >= 0) & (column < wide)
            at = tuple(
                np.nan_to_num(np.clip(place, 0, size - 1)).astype(np.int64)
                for place, size in ((row, tall), (column, wide))
            )
            values = np.moveaxis(x[images, groups, :, at[0], at[1]], -1, 2)
            found = found + values * np.where(inside, by_row * by_column, 0)[:, :, None]
    return found + nowhere


def torchvision_deform_conv2d(
    x: Array,
    weight: Array,
    offset: Array,
    mask: Array,
    bias: Array,
    *,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: int,
) -> Array:
    """`torchvision::deform_conv2d`, in the order of its schema (torchvision/csrc/ops/deform_conv2d.cpp)."""
    placing = {"strides": (stride_h, stride_w), "pads": (pad_h, pad_w), "dilations": (dilation_h, dilation_w)}
    seen = mask if use_mask else None
    return deformable_convolution(
        x, weight, offset, mask=seen, bias=bias, **placing, group=groups, offset_group=offset_groups
    )


def mmcv_deform_conv2d(
    x: Array,
    offset: Array,
    mask: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    deform_groups: int,
) -> Array:
    """`mmcv::MMCVModulatedDeformConv2d` (mmcv/ops/modulated_deform_conv.py)."""
    placing = {"strides": stride, "pads": padding, "dilations": dilation}
    return deformable_convolution(
        x, weight, offset, mask=mask, bias=bias, **placing, group=groups, offset_group=deform_groups
    )


def tensorrt_deform_conv2d(
    *inputs: Array | None,
    group: int,
    deformable_group: int,
    plugin_version: str = "1",
    plugin_namespace: str = "",
    **placing: Sequence[int],
) -> Array:
    """TensorRT's plugin ModulatedDeformConv2d (plugin/modulatedDeformConvPlugin)."""
    return mmcv_deform_conv2d(*inputs, **placing, groups=group, deform_groups=deformable_group)


def deformable_attention(value: Array, sizes: Array, starts: Array, places: Array, weights: Array) -> Array:
    """The weighted sum, for each query and head, of the values at the query's sampling points in each level.

    value: [N, S, M, D], the levels one after the other.  sizes: [L, 2], height and width of each.  starts: [L].
    places: sampling points [N, Q, M, L, P, 2], x and y from 0 to 1.  weights: [N, Q, M, L, P].  A level is bilinear
    between pixels, and zero beyond its edge.  Returns [N, Q, M, D] in the dtype of value.
    """
    images, _, heads, width = value.shape
    found: Array = 0
    for level, (tall, wide) in enumerate(sizes.tolist()):
        part = value[:, starts[level] : starts[level] + tall * wide].transpose(0, 2, 3, 1)
        xs, ys = (np.moveaxis(places[:, :, :, level, :, axis], 2, 1) for axis in (0, 1))  # [N, M, Q, P]
        here = xs * wide - 0.5, ys * tall - 0.5
        seen = bilinear(part.reshape((images, heads, width, tall, wide)), *(one[:, :, None] for one in reversed(here)))
        by = np.moveaxis(weights[:, :, :, level], 2, 1)  # [N, M, Q, P]
        found = found + np.einsum("nmdqp,nmqp->nqmd", seen.reshape(images, heads, width, *by.shape[2:]), by)
    return np.asarray(found, value.dtype)


def mmcv_deformable_attention(
    value: Array, sizes: Array, starts: Array, places: Array, weights: Array, *, im2col_step: int = 64
) -> Array:
    """The operator of mmdeploy's export of mmcv: heads and their channels share one axis, [N, Q, M·D]."""
    made = deformable_attention(value, sizes, starts, places=places, weights=weights)
    return made.reshape(*made.shape[:2], -1)


def tensorrt_deformable_attention(
    value: Array, sizes: Array, starts: Array, places: Array, weights: Array, **_: Any
) -> Array:
    """TensorRT's MultiscaleDeformableAttnPlugin_TRT, according to the README of its plugin."""
    return deformable_attention(value, sizes, starts, places=places, weights=weights)


DEFORMABLE: dict[tuple[str, str], Callable[..., Any]] = {
    ("torchvision", "deform_conv2d"): torchvision_deform_conv2d,
    ("custom", "deform_conv2d"): torchvision_deform_conv2d,
    ("mmcv", "MMCVModulatedDeformConv2d"): mmcv_deform_conv2d,
    ("trt.plugins", "ModulatedDeformConv2d"): tensorrt_deform_conv2d,
    ("mmdeploy", "MMCVMultiScaleDeformableAttention"): mmcv_deformable_attention,
    ("mmcv", "MMCVMultiScaleDeformableAttention"): mmcv_deformable_attention,
    ("trt.plugins", "MultiscaleDeformableAttnPlugin_TRT"): tensorrt_deformable_attention,
}
