"""ReGLU (Shazeer, arXiv:2002.05202): of two projections of one tensor, one gates the other through Relu."""

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, dims, rule


class Projections(Captures):
    x: Tensor = dims("... inner")
    gate: Constant = dims("inner columns")
    value: Constant = dims("inner columns")
    columns: int


def two_products(g: Graph, m: Projections) -> Tensor:
    """relu(x · gate) · (x · value)."""
    return g.mul(g.relu_of(g.matmul(m.x, m.gate)), g.matmul(m.x, m.value))


@rule(patterns=[two_products], target="any")
def reglu(g: Graph, m: Projections) -> Tensor:
    """Multiply by both matrices at once, and cut the product in two.

    Numerics: rounding only.
    """
    both = g.matmul(m.x, np.concatenate([m.gate.values, m.value.values], axis=1))
    gate, value = g.split(both, [m.columns, m.columns], axis=-1, outputs=2)
    return g.mul(g.relu(gate), value)
