"""A product of matrices that transposes its factors and scales the result: FusedMatMul of ONNX Runtime."""

from math import prod
from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule
from ._transpose_flags import FLOATS, apply_flags, flags_of_perm, perm_of_flags

NONE: dict[str, Any] = {}


class Factors(Captures):
    """Two factors, the Transpose, the Cast (to) and the scale of each, and the attributes of FusedMatMul.

    left_perm, right_perm, perm: the permutation of a factor or of the product, None for the default of Transpose, or ()
    without a Transpose.
    """

    a: Tensor
    b: Tensor
    made: Tensor | Any = None
    left_perm: list[int] | Any = ()
    right_perm: list[int] | Any = ()
    perm: list[int] | Any = ()
    left_to: int | None = None
    right_to: int | None = None
    left_factor: float | None = None
    right_factor: float | None = None
    factor: float | None = None
    attributes: dict[str, Any] = NONE


def product(g: Graph, m: Factors, a: Tensor, b: Tensor) -> Tensor:
    """a @ b, as MatMul or already as FusedMatMul."""
    m.made = g.any_of(g.matmul(a, b), g.ms_fused_matmul(a, b, **m.attributes))
    return m.made


def turned(g: Graph, x: Tensor, perm: list[int], to: Any) -> Tensor:
    """transpose(x), optionally cast to another dtype.  Other nodes may read the transposed tensor too."""
    return g.optional(g.cast(g.shared(g.transpose(x, perm=perm)), to=to))


def turned_left(g: Graph, m: Factors) -> Tensor:
    """transpose(a) @ b."""
    return product(g, m, turned(g, m.a, m.left_perm, m.left_to), m.b)


def turned_right(g: Graph, m: Factors) -> Tensor:
    """a @ transpose(b)."""
    return product(g, m, m.a, turned(g, m.b, m.right_perm, m.right_to))


def turned_product(g: Graph, m: Factors) -> Tensor:
    """transpose(a @ b)."""
    return g.transpose(product(g, m, m.a, m.b), perm=m.perm)


def scaled_left(g: Graph, m: Factors) -> Tensor:
    """(a · factor) @ b."""
    return product(g, m, g.exposed(g.mul(m.a, m.left_factor)), m.b)


def scaled_right(g: Graph, m: Factors) -> Tensor:
    """a @ (b · factor)."""
    return product(g, m, m.a, g.exposed(g.mul(m.b, m.right_factor)))


def scaled(g: Graph, m: Factors) -> Tensor:
    """(a @ b) · factor."""
    return g.mul(product(g, m, m.a, m.b), m.factor)


def one_node(g: Graph, m: Factors) -> Tensor:
    """FusedMatMul with any attributes."""
    return g.ms_fused_matmul(m.a, m.b, **m.attributes)


def require_matrices(a: Tensor, b: Tensor, made: Tensor) -> None:
    """Refuse vectors: the kernel of ONNX Runtime accepts them, but ignores the Transpose of the other factor."""
    require(a.rank is not None and b.rank is not None, "the rank of a factor is unknown")
    require(a.rank > 1 and b.rank > 1, "FusedMatMul gives wrong results for a vector")
    require(0 not in (*a.shape, *b.shape), "FusedMatMul with an empty factor leaves its result uninitialised")
    require(str(made.dtype) in FLOATS, "FusedMatMul of ONNX Runtime supports only floats")


@rule(
    patterns=[turned_right, turned_left, turned_product, scaled, scaled_left, scaled_right],
    form_patterns=[one_node],
    last=True,
)
def fused_matmul(g: Graph, m: Factors) -> Any:
    """Fuse Transposes and scales of factors or of their product into FusedMatMul.

    What: transpose(a) @ transpose(b) · alpha.  A Transpose swaps the last two axes or moves the batch.  If it is after
    the product, the factors are swapped.  A Cast after a Transpose moves before it.
    Numerics: rounding only.
    """
    a, b, own = m.a, m.b, m.attributes
    require_matrices(a, b, m.made)
    left, right = ((own.get(f"trans{side}", 0), own.get(f"transBatch{side}", 0)) for side in "AB")
    left = left if m.left_perm == () else flags_of_perm(a, m.left_perm, *left)
    right = right if m.right_perm == () else flags_of_perm(b, m.right_perm, *right)
    alike = not (left[1] or right[1]) or a.rank == b.rank > 2  # (MatMulComputeHelper::Compute)
    require(alike, "the batch axis can be moved only if both factors have the same rank")
    a = a if m.left_to is None else g.cast(a, to=m.left_to)
    b = b if m.right_to is None else g.cast(b, to=m.right_to)
    if m.perm != ():
        wanted = perm_of_flags(max(m.a.rank, m.b.rank), 1, 0)
        require([*(m.perm or (1, 0))] == wanted, "the Transpose of the product must swap its last two axes")
        require(not b.is_constant, "ONNX Runtime computes a product faster with constant weights on the right")
        a, b, left, right = b, a, (1 - right[0], right[1]), (1 - left[0], left[1])
    numbers = own.get("alpha"), m.left_factor, m.right_factor, m.factor
    alpha = prod(number for number in numbers if number is not None)
    with np.errstate(over="ignore"):
        kept = float(np.float32(alpha))
    require(np.isfinite(kept) and kept != 0, "alpha would be 0 or infinite in float32")
    is_exact = kept == alpha or str(m.made.dtype) != "float64"
    require(is_exact, "alpha is a float32, which is too coarse for this float64 factor")
    flags = {"transA": left[0], "transB": right[0], "transBatchA": left[1], "transBatchB": right[1]}
    is_plain = alpha == 1.0 and not any(flags.values())
    made = g.matmul(a, b) if is_plain else g.ms_fused_matmul(a, b, alpha=alpha, **flags)
    if m.output_count == 1:
        return made
    return made, g.mul(m.b, m.right_factor) if m.left_factor is None else g.mul(m.a, m.left_factor)


@fused_matmul.on("decomposed")
def _(g: Graph, m: Factors) -> Tensor:
    attribute = m.attributes.get
    x = apply_flags(g, m.a, attribute("transA", 0), attribute("transBatchA", 0))
    y = apply_flags(g, m.b, attribute("transB", 0), attribute("transBatchB", 0))
    alpha = attribute("alpha", 1.0)
    return g.matmul(x, y) if alpha == 1.0 else g.mul(g.matmul(x, y), alpha)
