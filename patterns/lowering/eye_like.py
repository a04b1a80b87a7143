"""The identity matrix of dynamic size, for TensorRT, which supports only fixed sizes."""

from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require, rule


def unit_matrix(g: Graph, x: Tensor, **settings: Any) -> Tensor:
    """EyeLike."""
    return g.eye_like(x, **settings)


@rule(patterns=[unit_matrix], target="tensorrt")
def eye_like(g: Graph, x: Tensor, **settings: Any) -> Tensor:
    """Write an EyeLike of dynamic size as a comparison of row numbers with column numbers.

    What: 1 if the column is the row plus k, otherwise 0.
    Numerics: none.
    """
    require(x.rank == 2, "the rank of the matrix is unknown")
    require(not all(isinstance(size, int) for size in x.shape), "its sizes are fixed, which TensorRT supports")
    dtype = settings.get("dtype") or x.dtype
    require(dtype is not None, "the dtype of the matrix is unknown")
    sizes, zero, one = g.shape(x), np.array(0, np.int64), np.array(1, np.int64)
    rows, columns = (g.range(zero, g.gather(sizes, np.array(axis, np.int64)), one) for axis in (0, 1))
    moved = g.add(rows, np.array(settings["k"], np.int64)) if settings.get("k") else rows
    is_one = g.equal(g.unsqueeze(moved, np.array([1])), g.unsqueeze(columns, np.array([0])))
    return g.cast(is_one, to=dtype)
