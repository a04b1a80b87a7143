"""The maxima of a pooling, written back to their positions."""

from math import prod
from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule


class Picked(Captures):
    """The maxima, their indices, and the windows of the pooling."""

    x: Tensor
    places: Tensor
    kernel: list[int]
    attributes: dict[str, Any]


def node(g: Graph, m: Picked) -> Tensor:
    """MaxUnpool."""
    return g.max_unpool(m.x, m.places, kernel_shape=m.kernel, **m.attributes)


@rule(patterns=[node], target="any", lacking=True, dtypes="floats")
def max_unpool(g: Graph, m: Picked) -> Tensor:
    """Write a MaxUnpool of fixed size as a ScatterElements into zeros.

    What: each number at its index, and zeros elsewhere.  For targets that do not support MaxUnpool.
    Numerics: none.
    """
    require(m.x.rank is not None and all(isinstance(size, int) for size in m.x.shape), "x has a dynamic size")
    require(m.x.dtype is not None, "the dtype of x is unknown")
    axes = len(m.kernel)
    strides = list(m.attributes.get("strides") or [1] * axes)
    pads = list(m.attributes.get("pads") or [0] * (2 * axes))
    sizes = [
        (size - 1) * strides[at] + m.kernel[at] - pads[at] - pads[at + axes] for at, size in enumerate(m.x.shape[2:])
    ]
    shape = [*m.x.shape[:2], *sizes]
    flat = np.array([-1], np.int64)
    zeros = g.expand(g.literal(np.array(0, m.x.dtype)), np.array([prod(shape)], np.int64))
    made = g.scatter_elements(zeros, g.reshape(m.places, flat), g.reshape(m.x, flat), axis=0)
    return g.reshape(made, np.array(shape))
