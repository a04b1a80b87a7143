"""Deformable convolution by GridSample and MatMul, for a runtime without a kernel or a plugin for DeformConv.

Dai et al., arXiv:1703.06211.  With a mask: Zhu et al., arXiv:1811.11168.
"""

from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require, rule

DIFFERS = {"non_finite": "for a NaN offset the kernels of ONNX Runtime give numbers, and each kernel other ones"}


def deformed(
    g: Graph,
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    **settings: Any,
) -> Tensor:
    """DeformConv of ONNX."""
    return g.deform_conv(x, weight, offset, bias, mask, **settings)


def plugged(
    g: Graph, x: Tensor, weight: Tensor, offset: Tensor, bias: Tensor, mask: Tensor, **settings: Any
) -> Any:
    """Its TensorRT plugin, which deform_conv writes for placeholders."""
    return g.op("trt.plugins::ModulatedDeformConv2d", x, offset, mask, weight, bias, **settings)


def known_sizes(x: Tensor, weight: Tensor) -> None:
    """Require two spatial axes, and fixed sizes of the channels and the kernel."""
    require(weight.rank == 4 and x.rank == 4, "only two spatial axes are supported")
    require(all(isinstance(size, int) for size in weight.shape), "the sizes of the weight are not fixed")
    require(isinstance(x.shape[1], int), "the number of channels is not fixed")


def shaped(g: Graph, x: Tensor, *sizes: Any) -> Tensor:
    """Reshape to sizes: numbers, and tensors of one or more sizes."""
    if all(isinstance(size, int) for size in sizes):
        return g.reshape(x, list(sizes))
    parts = [np.array([size], np.int64) if isinstance(size, int) else size for size in sizes]
    return g.reshape(x, g.concat(*parts, axis=0))


def positions(g: Graph, moved: Tensor, line: tuple[Tensor, list[int]], steps: Any, start: int, size: Any) -> Tensor:
    """Return the sampling positions in a grid from -1 to 1 over `size` pixels: output pixel, kernel step and offset.

    line: the indices of the output pixels along the axis, and the shape for them.
    """
    pixels, shape = line
    where = g.add(g.add(g.reshape(pixels, shape), steps + start), moved)
    where = g.min(g.max(where, -2.0), g.add(size, 1.0))  # every position farther away reads zeros
    return g.sub(g.div(g.add(g.mul(where, 2.0), 1.0), size), 1.0)


@rule(patterns=[deformed, plugged], conditions=[known_sizes], target={"tensorrt": 19, "onnx": 19}, differs=DIFFERS)
def deform_conv_grid_sample(
    g: Graph,
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    settings: dict[str, Any] | None = None,
) -> Tensor:
    """Write a deformable convolution as GridSample at the moved positions of the kernel, and one MatMul.

    What: DeformConv over two axes, or its TensorRT plugin, with groups, groups of offsets, a mask and a bias.  The
    sizes of images may be dynamic.
    Numerics: rounding only.  Positions are scaled to -1 to 1 and back.
    TensorRT: it supports DeformConv only by a plugin, which TensorRT-RTX does not have.  This form needs no plugin.
    """
    given = settings or {}
    filters, part, rows, columns = (int(size) for size in weight.shape)
    strides = given.get("strides", given.get("stride", [1, 1]))
    dilations = given.get("dilations", given.get("dilation", [1, 1]))
    pads = given.get("pads", given.get("padding", [0, 0]) * 2)
    group, sets = given.get("group", 1), given.get("offset_group", given.get("deformable_group", 1))
    channels, taps, dtype = int(x.shape[1]), rows * columns, x.dtype
    require(dtype is not None, "the dtype of the input is unknown")
    size = g.shape(offset)
    height, width = g.slice(size, [2], [3], [0]), g.slice(size, [3], [4], [0])
    area = g.mul(height, width)
    moved = shaped(g, offset, -1, taps, 2, height, width)
    down, across = (g.gather(moved, np.array(place), axis=2) for place in (0, 1))
    steps = np.indices((rows, columns)).reshape(2, 1, taps, 1, 1) * np.array(dilations).reshape(2, 1, 1, 1, 1)
    tall, wide = (g.cast(g.slice(g.shape(x), [axis], [axis + 1], [0]), to=dtype) for axis in (2, 3))
    lines = [
        g.mul(g.cast(g.range(np.int64(0), g.squeeze(length, [0]), np.int64(1)), to=dtype), float(stride))
        for length, stride in zip((height, width), strides, strict=True)
    ]
    ys = positions(g, down, (lines[0], [1, 1, -1, 1]), steps=steps[0].astype(dtype), start=-pads[0], size=tall)
    xs = positions(g, across, (lines[1], [1, 1, 1, -1]), steps=steps[1].astype(dtype), start=-pads[1], size=wide)
    places = g.concat(g.unsqueeze(xs, [-1]), g.unsqueeze(ys, [-1]), axis=-1)
    source = x if sets == 1 else shaped(g, x, -1, channels // sets, g.slice(g.shape(x), [2], [4], [0]))
    mode = "bilinear" if g.opset < 20 else "linear"
    grid = shaped(g, places, 0, -1, width, 2)
    taken = shaped(g, g.grid_sample(source, grid, mode=mode, align_corners=0), 0, channels // sets, taps, -1)
    if mask is not None:
        taken = g.mul(taken, shaped(g, mask, -1, 1, taps, area))
    kernel = g.reshape(weight, [group, filters // group, part * taps])
    summed = g.matmul(kernel, shaped(g, taken, -1, group, channels // group * taps, area))
    made = shaped(g, summed, -1, filters, height, width)
    return made if bias is None else g.add(made, g.reshape(bias, [1, filters, 1, 1]))
