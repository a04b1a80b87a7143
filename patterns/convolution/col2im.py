"""Columns that are added up to images, as a transposed convolution."""

from math import prod
from typing import Any

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, require, rule


class Columns(Captures):
    """Blocks as columns, the sizes of the images and of the blocks."""

    x: Tensor
    image: Constant
    block: Constant
    attributes: dict[str, Any]


def node(g: Graph, m: Columns) -> Tensor:
    """Col2Im."""
    return g.col2im(m.x, m.image, m.block, **m.attributes)


DIFFERS = {"non_finite": "an infinite or NaN element spreads over its block"}


@rule(patterns=[node], target="any", opset=18, lacking=True, dtypes="floats", differs=DIFFERS)
def col2im(g: Graph, m: Columns) -> Tensor:
    """Write a Col2Im of fixed sizes as a ConvTranspose with weights of ones and zeros.

    What: each column is a block of an image, and overlapping blocks are added.  For targets that do not support Col2Im.
    Numerics: rounding only.
    """
    image, block = (one.values.reshape(-1).tolist() for one in (m.image, m.block))
    axes, taps = len(image), prod(block)
    strides, dilations = (m.attributes.get(name) or [1] * axes for name in ("strides", "dilations"))
    pads = m.attributes.get("pads") or [0] * (2 * axes)
    is_both = max(strides) > 1 and max(dilations) > 1
    require(not is_both, "few targets, and not TensorRT, support ConvTranspose with both strides and dilations")
    spans = [(size - 1) * step + 1 for size, step in zip(block, dilations, strict=True)]
    room = [size + pads[at] + pads[at + axes] - spans[at] for at, size in enumerate(image)]
    require(all(one >= 0 for one in room), "a block is larger than the image")
    counts = [one // step + 1 for one, step in zip(room, strides, strict=True)]
    rest: Any = [one % step for one, step in zip(room, strides, strict=True)]
    require(m.x.rank == 3 and isinstance(m.x.shape[1], int), "the number of channels is not fixed")
    channels = m.x.shape[1] // taps
    weights = np.eye(taps).reshape(taps, 1, *block)
    apart = g.reshape(m.x, np.array([-1, taps, *counts]))
    made = g.conv_transpose(
        apart, weights, strides=strides, dilations=dilations, pads=pads, output_padding=rest
    )
    return g.reshape(made, np.array([-1, channels, *image]))
