"""Deformable attention over several levels as a numpy formula, as placeholders and TensorRT's plugin have it.

Source: Zhu et al., "Deformable DETR" (arXiv:2010.04159), eq. 3.
"""

from typing import Any

import numpy as np

from surgeon.running.deformable import bilinear
from surgeon.running.erf import Array


def deformable_attention(value: Array, sizes: Array, starts: Array, places: Array, weights: Array) -> Array:
    """Sum, for each query and head, the values at the query's places in each level, by its weights.

    value: [N, S, M, D], the levels one after the other.  sizes: [L, 2], height and width of each.  starts: [L].
    places: [N, Q, M, L, P, 2], x and y from 0 to 1.  weights: [N, Q, M, L, P].  Between pixels a level is bilinear,
    beyond its edge zero.  Returns [N, Q, M, D] in the dtype of value.
    """
    images, _, heads, width = value.shape
    found: Array = 0
    for level, (tall, wide) in enumerate(sizes.tolist()):
        part = value[:, starts[level] : starts[level] + tall * wide].transpose(0, 2, 3, 1)
        xs, ys = (np.moveaxis(places[:, :, :, level, :, axis], 2, 1) for axis in (0, 1))  # [N, M, Q, P]
        here = xs * wide - 0.5, ys * tall - 0.5
        seen = bilinear(part.reshape(images, heads, width, tall, wide), *(one[:, :, None] for one in reversed(here)))
        by = np.moveaxis(weights[:, :, :, level], 2, 1)  # [N, M, Q, P]
        found = found + np.einsum("nmdqp,nmqp->nqmd", seen.reshape(images, heads, width, *by.shape[2:]), by)
    return np.asarray(found, value.dtype)


def mmcv_deformable_attention(
    value: Array, sizes: Array, starts: Array, places: Array, weights: Array, *, im2col_step: int = 64
) -> Array:
    """The node that mmdeploy's export of mmcv writes: heads and their numbers in one axis, [N, Q, M·D]."""
    made = deformable_attention(value, sizes, starts, places, weights)
    return made.reshape(*made.shape[:2], -1)


def tensorrt_deformable_attention(
    value: Array, sizes: Array, starts: Array, places: Array, weights: Array, **_: Any
) -> Array:
    """TensorRT's MultiscaleDeformableAttnPlugin_TRT, as the README of its plugin describes it."""
    return deformable_attention(value, sizes, starts, places, weights)
