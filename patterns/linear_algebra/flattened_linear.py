"""Rows by a matrix, whose axes were one for as long as they were multiplied."""

from typing import Any

from surgeon import Captures, Graph, Tensor, dims, require, rule

PLAIN = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}


class FlattenedLinear(Captures):
    """The rows of x by w, and a sum; settings: the attributes of a Gemm."""

    x: Tensor = dims("*batch inner")
    rows: Tensor = dims("_ inner")
    w: Tensor = dims("_ _")
    bias: Tensor | None = dims("", "_", "1 _", default=None)
    settings: dict[str, Any] | Any = None
    y: Tensor = dims("*batch _")


def product(g: Graph, m: FlattenedLinear) -> Tensor:
    """x as one list of rows, times w, and bias added or not, in one node or two; and as many axes as before."""
    m.rows = g.shared(g.reshaped(m.x))
    apart = g.optional(g.add(g.matmul(m.rows, m.w), m.bias))
    m.y = g.reshaped(g.any_of(g.gemm(m.rows, m.w, m.bias, **m.settings), apart))
    return m.y


@rule(patterns=[product], target="any")
def flattened_linear(g: Graph, m: FlattenedLinear) -> Tensor:
    """Multiply rows by a matrix with the axes that they have, instead of making these one and several again.

    What: Gemm, or MatMul and Add, between two Reshapes, as torch's addmm in GPT-2's Conv1D; the sum becomes an Add,
    which a Gelu or a normalisation behind it takes in.
    Numerics: rounding only.
    """
    settings = {**PLAIN, **(m.settings or {})}
    is_plain = all(settings[name] == plain for name, plain in PLAIN.items())
    require(is_plain, "it scales the product or the sum, or turns one")
    require(m.x.rank > 2, "it is not several axes of the rows that become one")
    return g.optional(g.add(g.matmul(m.x, m.w), m.bias))
