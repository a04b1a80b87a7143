"""Slices that do not name their axes."""

import numpy as np

from surgeon import Graph, Tensor, require, rule


def unnamed(g: Graph, x: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
    """Slice without axes."""
    return g.slice(x, starts, ends)


@rule(patterns=[unnamed], target="tensorrt", opset=10)
def slice_axes(g: Graph, x: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
    """Name the axes of a Slice that has less of them than its tensor.

    What: the first axes, as ONNX has it; TensorRT wants all of them where none is named.
    Numerics: none.
    """
    require(starts.rank == 1 and isinstance(starts.shape[0], int), "how many axes it has is unknown")
    require(x.rank is not None and starts.shape[0] < x.rank, "it goes over all axes")
    return g.slice(x, starts, ends, np.arange(starts.shape[0]))
