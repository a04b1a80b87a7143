"""A product of matrices that transposes its factors and scales itself: FusedMatMul of ONNX Runtime."""

from typing import Any

import numpy as np

from surgeon import Graph, Match, Tensor, require, rule
from ._factors import FLOATS, flags_of, transposed


def product(g: Graph, a: Tensor, b: Tensor, **attributes: Any) -> Tensor:
    """a @ b, already a FusedMatMul or not yet."""
    return g.any_of(g.matmul(a, b), g.ms_fused_matmul(a, b, **attributes))


def turned_left(g: Graph, a: Tensor, left_perm: list[int], b: Tensor, **attributes: Any) -> Tensor:
    """transpose(a) @ b."""
    return product(g, g.transpose(a, perm=left_perm), b, **attributes)


def turned_right(g: Graph, a: Tensor, b: Tensor, right_perm: list[int], **attributes: Any) -> Tensor:
    """a @ transpose(b)."""
    return product(g, a, g.transpose(b, perm=right_perm), **attributes)


def scaled_left(g: Graph, a: Tensor, factor: float, b: Tensor, **attributes: Any) -> Tensor:
    """(a · factor) @ b."""
    return product(g, g.mul(a, factor), b, **attributes)


def scaled_right(g: Graph, a: Tensor, b: Tensor, factor: float, **attributes: Any) -> Tensor:
    """a @ (b · factor)."""
    return product(g, a, g.mul(b, factor), **attributes)


def scaled(g: Graph, a: Tensor, b: Tensor, factor: float, **attributes: Any) -> Tensor:
    """(a @ b) · factor."""
    return g.mul(product(g, a, b, **attributes), factor)


def one_node(g: Graph, a: Tensor, b: Tensor, **attributes: Any) -> Tensor:
    """FusedMatMul, whatever its attributes."""
    return g.ms_fused_matmul(a, b, **attributes)


def require_matrices(a: Tensor, b: Tensor) -> None:
    """ONNX Runtime's kernel takes vectors too, but transposes nothing beside one and is wrong."""
    require(a.rank is not None and b.rank is not None, "the rank of a factor is unknown")
    require(a.rank > 1 and b.rank > 1, "FusedMatMul of a vector is not to be trusted")
    require(0 not in (*a.shape, *b.shape), "FusedMatMul of an empty factor leaves its result as the memory was")
    require(str(a.dtype) in FLOATS, "ONNX Runtime's FusedMatMul multiplies floats")


@rule(patterns=[turned_right, turned_left, scaled, scaled_left, scaled_right], form_patterns=[one_node])
def fused_matmul(
    g: Graph, match: Match, a: Tensor, b: Tensor, left_perm: Any = (), right_perm: Any = (), factor: float = 1.0
) -> Tensor:
    """Fuse transposes of factors, and numbers that they or their product are multiplied with, into FusedMatMul.

    What: transpose(a) @ transpose(b) · alpha, where a transpose swaps the last two axes or moves the batch.
    Numerics: rounding only.
    """
    require_matrices(a, b)
    own = match["attributes"] if "attributes" in match.bound else {}
    left, right = ((own.get(f"trans{side}", 0), own.get(f"transBatch{side}", 0)) for side in "AB")
    left = left if left_perm == () else flags_of(a, left_perm, *left)
    right = right if right_perm == () else flags_of(b, right_perm, *right)
    alike = not (left[1] or right[1]) or a.rank == b.rank > 2  # (MatMulComputeHelper::Compute)
    require(alike, "a batch is moved only where both factors have as many axes")
    alpha = own.get("alpha", 1.0) * factor
    kept = float(np.float32(alpha))
    require(np.isfinite(kept) and kept != 0, "alpha would be 0, or not finite")
    require(kept == alpha or str(a.dtype) != "float64", "alpha is a float32, too coarse for this factor in a double")
    if alpha == 1.0 and not any((*left, *right)):
        return g.matmul(a, b)
    return g.ms_fused_matmul(
        a, b, alpha=alpha, transA=left[0], transB=right[0], transBatchA=left[1], transBatchB=right[1]
    )


@fused_matmul.on("decomposed")
def _(g: Graph, a: Tensor, b: Tensor, **attributes: Any) -> Tensor:
    x = transposed(g, a, attributes.get("transA", 0), attributes.get("transBatchA", 0))
    y = transposed(g, b, attributes.get("transB", 0), attributes.get("transBatchB", 0))
    alpha = attributes.get("alpha", 1.0)
    return g.matmul(x, y) if alpha == 1.0 else g.mul(g.matmul(x, y), alpha)
