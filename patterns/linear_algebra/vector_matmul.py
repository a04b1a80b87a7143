"""Products of a vector with several matrices."""

import numpy as np

from surgeon import Graph, Tensor, require, rule


def product(g: Graph, x: Tensor, y: Tensor) -> Tensor:
    """MatMul."""
    return g.matmul(x, y)


@rule(patterns=[product], target="tensorrt")
def vector_matmul(g: Graph, x: Tensor, y: Tensor) -> Tensor:
    """Write the product of a vector with several matrices as that of a matrix of one row.

    What: a MatMul whose left factor is a vector and whose right factor has three axes or more: TensorRT gives the
    vector two axes, and the matrices have more.
    Numerics: rounding only.
    """
    require(x.rank == 1, "the left factor is no vector")
    require(y.rank is not None and y.rank > 2, "the right factor is one matrix")
    return g.squeeze(g.matmul(g.unsqueeze(x, np.array([0])), y), np.array([-2]))
