"""Products of a vector with several matrices."""

import numpy as np

from surgeon import Graph, Tensor, require, rule


def product(g: Graph, x: Tensor, y: Tensor) -> Tensor:
    """MatMul."""
    return g.matmul(x, y)


@rule(patterns=[product], target="tensorrt")
def vector_matmul(g: Graph, x: Tensor, y: Tensor) -> Tensor:
    """Write the product of a vector with several matrices as the product of a matrix with one row.

    What: a MatMul whose left factor is a vector and whose right factor has three axes or more.  TensorRT extends the
    vector to only two axes, fewer than the matrices have.
    Numerics: rounding only.
    """
    require(x.rank == 1, "the left factor must be a vector")
    require(y.rank is not None and y.rank > 2, "the right factor must be a batch of matrices")
    return g.squeeze(g.matmul(g.unsqueeze(x, np.array([0])), y), np.array([-2]))
