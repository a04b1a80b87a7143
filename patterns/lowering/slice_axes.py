"""Slices without explicit axes."""

import numpy as np

from surgeon import Graph, Tensor, require, rule


def unnamed(g: Graph, x: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
    """Slice without axes."""
    return g.slice(x, starts, ends)


@rule(patterns=[unnamed], target="tensorrt", opset=10)
def slice_axes(g: Graph, x: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
    """Add the axes to a Slice that has fewer of them than its input.

    What: the first axes, as ONNX defines.  Without explicit axes, TensorRT requires all of them.
    Numerics: none.
    """
    require(starts.rank == 1 and isinstance(starts.shape[0], int), "the number of its axes is unknown")
    require(x.rank is not None and starts.shape[0] < x.rank, "it slices all axes")
    return g.slice(x, starts, ends, np.arange(starts.shape[0]))
