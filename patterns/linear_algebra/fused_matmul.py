"""A product of matrices that transposes its factors and scales the result: FusedMatMul of ONNX Runtime."""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule
from ._transpose_flags import FLOATS, apply_flags, flags_of_perm

NONE: dict[str, Any] = {}


class Factors(Captures):
    """Two factors, the Transpose of each, a number, and the attributes of FusedMatMul.

    left_perm, right_perm: the permutation, None for the default of Transpose, or () without a Transpose.
    """

    a: Tensor
    b: Tensor
    left_perm: list[int] | Any = ()
    right_perm: list[int] | Any = ()
    factor: float = 1.0
    attributes: dict[str, Any] = NONE


def product(g: Graph, m: Factors, a: Tensor, b: Tensor) -> Tensor:
    """a @ b, as MatMul or already as FusedMatMul."""
    return g.any_of(g.matmul(a, b), g.ms_fused_matmul(a, b, **m.attributes))


def turned_left(g: Graph, m: Factors) -> Tensor:
    """transpose(a) @ b."""
    return product(g, m, g.transpose(m.a, perm=m.left_perm), m.b)


def turned_right(g: Graph, m: Factors) -> Tensor:
    """a @ transpose(b)."""
    return product(g, m, m.a, g.transpose(m.b, perm=m.right_perm))


def scaled_left(g: Graph, m: Factors) -> Tensor:
    """(a · factor) @ b."""
    return product(g, m, g.mul(m.a, m.factor), m.b)


def scaled_right(g: Graph, m: Factors) -> Tensor:
    """a @ (b · factor)."""
    return product(g, m, m.a, g.mul(m.b, m.factor))


def scaled(g: Graph, m: Factors) -> Tensor:
    """(a @ b) · factor."""
    return g.mul(product(g, m, m.a, m.b), m.factor)


def one_node(g: Graph, m: Factors) -> Tensor:
    """FusedMatMul with any attributes."""
    return g.ms_fused_matmul(m.a, m.b, **m.attributes)


def require_matrices(a: Tensor, b: Tensor) -> None:
    """Refuse vectors: the kernel of ONNX Runtime accepts them, but ignores the Transpose of the other factor."""
    require(a.rank is not None and b.rank is not None, "the rank of a factor is unknown")
    require(a.rank > 1 and b.rank > 1, "FusedMatMul gives wrong results for a vector")
    require(0 not in (*a.shape, *b.shape), "FusedMatMul with an empty factor leaves its result uninitialised")
    require(str(a.dtype) in FLOATS, "FusedMatMul of ONNX Runtime supports only floats")


@rule(patterns=[turned_right, turned_left, scaled, scaled_left, scaled_right], form_patterns=[one_node], last=True)
def fused_matmul(g: Graph, m: Factors) -> Tensor:
    """Fuse Transposes of factors, and scales of factors or of their product, into FusedMatMul.

    What: transpose(a) @ transpose(b) · alpha.  A Transpose swaps the last two axes or moves the batch.
    Numerics: rounding only.
    """
    a, b, own = m.a, m.b, m.attributes
    require_matrices(a, b)
    left, right = ((own.get(f"trans{side}", 0), own.get(f"transBatch{side}", 0)) for side in "AB")
    left = left if m.left_perm == () else flags_of_perm(a, m.left_perm, *left)
    right = right if m.right_perm == () else flags_of_perm(b, m.right_perm, *right)
    alike = not (left[1] or right[1]) or a.rank == b.rank > 2  # (MatMulComputeHelper::Compute)
    require(alike, "the batch axis can be moved only if both factors have the same rank")
    alpha = own.get("alpha", 1.0) * m.factor
    with np.errstate(over="ignore"):
        kept = float(np.float32(alpha))
    require(np.isfinite(kept) and kept != 0, "alpha would be 0 or infinite in float32")
    require(
        kept == alpha or str(a.dtype) != "float64", "alpha is a float32, which is too coarse for this float64 factor"
    )
    if alpha == 1.0 and not any((*left, *right)):
        return g.matmul(a, b)
    return g.ms_fused_matmul(
        a, b, alpha=alpha, transA=left[0], transB=right[0], transBatchA=left[1], transBatchB=right[1]
    )


@fused_matmul.on("decomposed")
def _(g: Graph, m: Factors) -> Tensor:
    attribute = m.attributes.get
    x = apply_flags(g, m.a, attribute("transA", 0), attribute("transBatchA", 0))
    y = apply_flags(g, m.b, attribute("transB", 0), attribute("transBatchB", 0))
    alpha = attribute("alpha", 1.0)
    return g.matmul(x, y) if alpha == 1.0 else g.mul(g.matmul(x, y), alpha)
