"""Linear layers between Transposes that swap rows and batch, and cancel if one moves through the layer."""

from typing import Any

from surgeon import Captures, Graph, Tensor, dims, require, rule
from ..attention._projections import linear
from .sequence_first import swap_batch_and_sequence


class Linear(Captures):
    """x @ w + b with as many axes as x (made), optionally as a Gemm of a matrix (flat), optionally of x swapped."""

    x: Tensor = dims("_ _ inner")
    swapped: Tensor | Any = None
    w: Tensor = dims("_ _")
    b: Tensor | Any = dims("_", default=None)
    flat: Tensor | Any = dims("_ inner", default=None)
    made: Tensor = dims("_ _ _")
    turned: int = 0


def before_swap(g: Graph, m: Linear) -> Tensor:
    """A linear layer before a Transpose, optionally between two Transposes."""
    m.swapped = swap_batch_and_sequence(g, m.x)
    return swap_batch_and_sequence(g, g.any_of(linear(g, m.swapped, m), linear(g, m.x, m)))


@rule(patterns=[before_swap], target="any")
def transpose_before_linear(g: Graph, m: Linear) -> Tensor:
    """Swap rows and batch before a linear layer instead of after it.  The layer treats all rows alike.

    What: rows and batch that are swapped after x @ w + b, as MatMul or Gemm, and swapped before it, so that both
    Transposes disappear.  Or swapped only after it, if the output has more columns than the input.
    Numerics: rounding only.
    """
    require(m.w.dtype == m.x.dtype, "the weights must have the dtype of x")
    x, columns = m.x, m.made.shape[-1]
    if m.swapped is None:
        fits = isinstance(columns, int) and isinstance(m.inner, int) and columns > m.inner
        require(fits, "the output of the layer must be known to have more columns than its input")
        x = swap_batch_and_sequence(g, x)
    return g.optional(g.add(g.matmul(x, g.transpose(m.w, perm=[1, 0]) if m.turned else m.w), m.b))


class SplitParts(Captures):
    """Equal parts of x along its last axis, whose other axes are all moved alike."""

    x: Tensor


def in_three(g: Graph, m: SplitParts) -> tuple[Tensor, ...]:
    """Three parts."""
    return tuple(swap_batch_and_sequence(g, part) for part in g.cut(m.x, 3, -1))


def in_two(g: Graph, m: SplitParts) -> tuple[Tensor, ...]:
    """Two parts."""
    return tuple(swap_batch_and_sequence(g, part) for part in g.cut(m.x, 2, -1))


@rule(patterns=[in_three, in_two], target="any")
def transpose_before_split(g: Graph, m: SplitParts) -> Any:
    """Swap rows and batch of a tensor once, instead of in each of its parts.

    What: Transposes of all equal parts into which a tensor is split along its columns.
    Numerics: none.
    """
    return g.cut(swap_batch_and_sequence(g, m.x), m.output_count, -1)
