"""Linear layers whose input axes are merged only for the product."""

from typing import Any

from surgeon import Captures, Graph, Tensor, dims, require, rule

PLAIN = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}


class FlattenedLinear(Captures):
    """The rows of x times w, plus a bias. settings: the attributes of a Gemm."""

    x: Tensor = dims("*batch inner")
    rows: Tensor = dims("_ inner")
    w: Tensor = dims("_ _")
    bias: Tensor | None = dims("", "_", "1 _", default=None)
    settings: dict[str, Any] | Any = None
    y: Tensor = dims("*batch _")


def product(g: Graph, m: FlattenedLinear) -> Tensor:
    """x reshaped to a list of rows, times w, with an optional bias, in one or two nodes, and reshaped back."""
    m.rows = g.shared(g.reshaped(m.x))
    apart = g.optional(g.add(g.matmul(m.rows, m.w), m.bias))
    m.y = g.reshaped(g.any_of(g.gemm(m.rows, m.w, m.bias, **m.settings), apart))
    return m.y


@rule(patterns=[product], target="any")
def flattened_linear(g: Graph, m: FlattenedLinear) -> Tensor:
    """Multiply rows by a matrix directly, instead of merging their axes and splitting them again.

    What: Gemm, or MatMul and Add, between two Reshapes, as addmm of torch in the Conv1D of GPT-2.  The bias becomes an
    Add, which can be fused with a Gelu or a normalisation after it.
    Numerics: rounding only.
    """
    settings = {**PLAIN, **(m.settings or {})}
    is_plain = all(settings[name] == plain for name, plain in PLAIN.items())
    require(is_plain, "the Gemm must not scale the product or the bias, or transpose a factor")
    require(m.x.rank > 2, "the rows must have several axes that are merged")
    return g.optional(g.add(g.matmul(m.x, m.w), m.bias))
