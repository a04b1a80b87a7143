"""The product of two matrices plus a bias as one node (Gemm), Transposes of its inputs and output, and the reverse."""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule
from ._transpose_flags import FLOATS


def product_and_sum(
    g: Graph, left: Tensor, turned_left: Tensor, right: Tensor, turned_right: Tensor, bias: Tensor
) -> Tensor:
    """x @ w + bias.  Either matrix may be transposed."""
    lefts = g.transpose(turned_left, perm=[1, 0]), left
    rights = g.transpose(turned_right, perm=[1, 0]), right
    return g.any_of(*(g.add(g.matmul(x, w), bias) for x in lefts for w in rights))


def one_node(g: Graph, left: Tensor, right: Tensor, bias: Tensor | None = None, **attributes: Any) -> Tensor:
    """Gemm with any attributes."""
    return g.gemm(left, right, bias, **attributes)


def bare_and_sum(g: Graph, left: Tensor, right: Tensor, bias: Tensor, **attributes: Any) -> Tensor:
    """A Gemm without a third input, plus a tensor."""
    return g.add(g.gemm(left, right, **attributes), bias)


class TransposedGemm(Captures):
    """The inputs of a Gemm, its factors perhaps transposed, and the Transpose of the result, or () without one."""

    left: Tensor | Any = None
    turned_left: Tensor | Any = None
    right: Tensor | Any = None
    turned_right: Tensor | Any = None
    bias: Tensor | None = None
    perm: list[int] | Any = ()
    attributes: dict[str, Any]


def of_transposed(g: Graph, m: TransposedGemm) -> Tensor:
    """Gemm of transposed factors, which other nodes may read too."""
    lefts, rights = ((g.shared(g.transpose(x, perm=[1, 0])), x) for x in (m.turned_left, m.turned_right))
    pairs = (lefts[0], m.right), (m.left, rights[0]), (lefts[0], rights[0])
    return g.any_of(*(g.gemm(x, w, m.bias, **m.attributes) for x, w in pairs))


def transposed_result(g: Graph, m: TransposedGemm) -> Tensor:
    """The transpose of a Gemm."""
    return g.transpose(g.gemm(m.left, m.right, m.bias, **m.attributes), perm=m.perm)


def require_matrix(x: Tensor) -> None:
    """Require a float matrix with two axes, as Gemm does."""
    require(x.rank is not None, "the rank of a factor is unknown")
    require(x.rank == 2, f"Gemm needs 2-D inputs, but this one has {x.rank} axes")
    require(str(x.dtype) in FLOATS, "ONNX Runtime has no Gemm kernel for integers")


def require_narrow(bias: Tensor, rows: object, columns: object) -> None:
    """Refuse a bias that broadcasts the product.  The third input of Gemm must not."""
    require(bias.rank is not None, "the rank of the bias is unknown")
    sides = dict(zip(range(1, 3), (columns, rows), strict=True))
    fits = all(size in (1, sides.get(place)) for place, size in enumerate(reversed(bias.shape), start=1))
    require(bias.rank <= 2 and fits, "the bias may broadcast the product to a larger shape")


@rule(patterns=[product_and_sum], target="onnx", opset=7, form_patterns=[one_node])
def gemm(
    g: Graph, bias: Tensor, left: Any = None, right: Any = None, turned_left: Any = None, turned_right: Any = None
) -> Tensor:
    """Fuse the product of two matrices and a bias into one Gemm node.

    What: x @ w + bias.  A transposed factor becomes transA or transB.
    Numerics: rounding only.
    """
    x, w = turned_left or left, turned_right or right
    require_matrix(x)
    require_matrix(w)
    require_narrow(bias, x.shape[turned_left is not None], w.shape[turned_right is None])
    return g.gemm(x, w, bias, transA=int(turned_left is not None), transB=int(turned_right is not None))


@gemm.on("decomposed")
def _(g: Graph, left: Tensor, right: Tensor, bias: Tensor | None = None, **attributes: Any) -> Tensor:
    require_matrix(left)
    x = transposed(g, left) if attributes.get("transA", 0) else left
    w = transposed(g, right) if attributes.get("transB", 0) else right
    product = times(g, g.matmul(x, w), attributes.get("alpha", 1.0))
    return product if bias is None else g.add(product, times(g, bias, attributes.get("beta", 1.0)))


@rule(patterns=[bare_and_sum], target="onnx", opset=7)
def gemm_sum(g: Graph, left: Tensor, right: Tensor, bias: Tensor, attributes: dict[str, Any]) -> Tensor:
    """Make a tensor that is added to a Gemm its third input.

    What: alpha · x @ w + bias.  The Gemm has no third input yet, and the bias does not broadcast the product.
    Numerics: rounding only.
    """
    require_matrix(left)
    require_matrix(right)
    rows, columns = left.shape[attributes.get("transA", 0)], right.shape[1 - attributes.get("transB", 0)]
    require_narrow(bias, rows, columns)
    return g.gemm(left, right, bias, **{**attributes, "beta": 1.0})


@rule(patterns=[of_transposed, transposed_result], target="onnx", opset=7)
def gemm_transposes(g: Graph, m: TransposedGemm) -> Tensor:
    """Fold Transposes of the factors or of the result of a Gemm into transA and transB.

    What: Gemm of transposed matrices, and (x @ w + bias)ᵀ = wᵀ @ xᵀ + biasᵀ with a constant bias or without one.  The
    Transpose of a factor stays if it has other consumers.
    Numerics: rounding only.
    """
    x, w, bias = m.turned_left or m.left, m.turned_right or m.right, m.bias
    turned = {"transA": m.turned_left, "transB": m.turned_right}
    flags = [m.attributes.get(name, 0) ^ int(factor is not None) for name, factor in turned.items()]
    if m.perm != ():
        require(not w.is_constant, "ONNX Runtime computes a product faster with constant weights on the right")
        require(bias is None or bias.is_constant, "the bias of a transposed result must be a constant")
        x, w, flags = w, x, [1 - flag for flag in reversed(flags)]
        bias = None if bias is None else g.literal(np.ascontiguousarray(np.atleast_2d(bias.values).T))
    return g.gemm(x, w, bias, **{**m.attributes, "transA": flags[0], "transB": flags[1]})


def transposed(g: Graph, x: Any) -> Tensor:
    """Transpose a matrix.  The transpose of a constant is a constant."""
    return g.literal(np.ascontiguousarray(x.values.T)) if x.is_constant else g.transpose(x, perm=[1, 0])


def times(g: Graph, x: Tensor, factor: float) -> Tensor:
    """Return x · factor, or x if the factor is 1."""
    return x if factor == 1.0 else g.mul(x, factor)
