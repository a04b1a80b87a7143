"""Einsum of two factors as MatMul or Mul, and Einsum of one factor as ReduceSum and Transpose."""

from math import prod
from typing import Any

from surgeon import Graph, Tensor, require, rule
from .._common.axes import is_same_size
from ._einsum_equation import AxisRoles, OneOperand, TwoOperands, axis_roles, expand_ellipsis

KINDS = (
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "int32",
    "int64",
    "uint32",
    "uint64",
)  # dtypes that MatMul supports
Sizes = dict[str, Any]


def ordered(g: Graph, x: Tensor, have: str, want: str) -> Tensor:
    """Transpose x to another order of its axes."""
    return x if have == want else g.transpose(x, perm=[have.index(letter) for letter in want])


def merged(letters: str, sizes: Sizes) -> int:
    """Return the size of several axes merged into one."""
    fixed = all(isinstance(sizes[letter], int) and sizes[letter] for letter in letters)
    require(fixed, "several axes of a factor must be merged, but their sizes are not fixed")
    return prod(sizes[letter] for letter in letters)


def left_of(g: Graph, x: Tensor, have: str, parts: AxisRoles, sizes: Sizes) -> Tensor:
    """Return the first factor with the axes batch, rows and summed."""
    ahead = parts.batch + parts.rows
    x = ordered(g, x, have, ahead + parts.summed)
    x = x if len(parts.summed) == 1 else g.reshape(x, [0] * len(ahead) + [merged(parts.summed, sizes)])
    return x if parts.rows else g.unsqueeze(x, [len(ahead)])


def right_of(g: Graph, x: Tensor, have: str, parts: AxisRoles, sizes: Sizes) -> Tensor:
    """Return the second factor with the axes batch, ones, summed and columns.

    The axes of one replace the row axes of the first factor, except for one of them.
    """
    ahead = len(parts.batch)
    x = ordered(g, x, have, parts.batch + parts.summed + parts.columns)
    if len(parts.summed) > 1 or len(parts.columns) > 1:
        height = 0 if len(parts.summed) == 1 else merged(parts.summed, sizes)
        x = g.reshape(x, [0] * ahead + [height] + [merged(parts.columns, sizes)] * bool(parts.columns))
    x = x if parts.columns else g.unsqueeze(x, [ahead + 1])
    more = len(parts.rows) - 1 if parts.batch else 0
    return g.unsqueeze(x, list(range(ahead, ahead + more))) if more > 0 else x


def beside(g: Graph, x: Tensor, have: str, want: str) -> Tensor:
    """Return a factor for an elementwise product: its axes in order, and axes of one for the missing ones."""
    x = ordered(g, x, have, "".join(letter for letter in want if letter in have))
    first = min((want.index(letter) for letter in have), default=len(want))
    new = [place - first for place in range(first, len(want)) if want[place] not in have]
    return g.unsqueeze(x, new) if new else x


def product(g: Graph, m: TwoOperands) -> Tensor:
    """Einsum of two factors."""
    return g.einsum(m.a, m.b, equation=m.equation)


@rule(patterns=[product], target="any")
def einsum(g: Graph, m: TwoOperands) -> Tensor:
    """Write an Einsum of two factors as a MatMul or a Mul, with the Transposes and Reshapes that it needs.

    What: sums of products in which each axis is a batch, row, column or summed axis, as in bhid,bhjd->bhij.  Also
    products without a sum, as in i,j->ij.  An axis must not occur twice in a factor, and an axis of only one factor
    must not be summed.
    Numerics: rounding only.  None for products without a sum.
    """
    require(str(m.a.dtype) in KINDS, f"MatMul does not support {m.a.dtype}")
    a, b = m.a, m.b
    left, right, want = expand_ellipsis(m.equation, (a.rank, b.rank))
    if {*left, *right} == {*want}:
        return g.mul(beside(g, a, left, want), beside(g, b, right, want))
    if {*left} < {*right} or (
        want and want[-1] not in right and not {*right} < {*left}
    ):  # a vector becomes the second factor
        a, b, left, right = b, a, right, left
    parts = axis_roles(left, right, want)
    sizes, others = dict(zip(left, a.shape, strict=True)), dict(zip(right, b.shape, strict=True))
    same = all(is_same_size(sizes[letter], others[letter]) for letter in parts.summed)
    require(same, "the sizes of the summed axes are unknown or differ")
    made = g.matmul(left_of(g, a, left, parts=parts, sizes=sizes), right_of(g, b, right, parts=parts, sizes=others))
    return in_order(g, made, parts, want=want, sizes=others)


def in_order(g: Graph, made: Tensor, parts: AxisRoles, want: str, sizes: Sizes) -> Tensor:
    """Return the product with separate column axes, without axes that only MatMul needs, in the requested order."""
    ahead, before = parts.batch + parts.rows, max(len(parts.batch + parts.rows), len(parts.batch) + 1)
    if len(parts.columns) > 1:
        made = g.reshape(made, [0] * before + [sizes[one] for one in parts.columns])
    gone = [len(ahead)] * (not parts.rows) + [before] * (not parts.columns)
    return ordered(g, g.squeeze(made, gone) if gone else made, ahead + parts.columns, want)


def alone(g: Graph, m: OneOperand) -> Tensor:
    """Einsum of one factor."""
    return g.einsum(m.a, equation=m.equation)


@rule(patterns=[alone], target="any")
def einsum_one_operand(g: Graph, m: OneOperand) -> Tensor:
    """Write an Einsum of one factor as a Transpose, after a sum over the axes that its result does not have.

    What: axes in another order, as in nhwpqc->nchpwq, with which diffusion transformers join patches.  An axis must not
    occur twice.
    Numerics: rounding only.
    """
    require(str(m.a.dtype) in KINDS, f"ReduceSum does not support {m.a.dtype}")
    have, want = expand_ellipsis(m.equation, (m.a.rank,))
    require(set(want) <= set(have), "the result has an axis that the factor does not have")
    summed = [axis for axis, letter in enumerate(have) if letter not in want]
    made = g.reduce_sum(m.a, summed, keepdims=0) if summed else m.a
    return ordered(g, made, "".join(letter for letter in have if letter in want), want)
