"""What the rules of a residual and the norm behind it have in common."""

from surgeon import Constant, Graph, Tensor, require


def residual(g: Graph, x: Tensor, skip: Tensor, bias: Constant) -> Tensor:
    """x + bias + skip, or x + skip."""
    return g.any_of(g.add(x, bias, skip), g.add(x, skip))


def summed(g: Graph, x: Tensor, skip: Tensor, bias: Constant | None) -> Tensor:
    """x + bias + skip, in which the bias may be left out."""
    return g.add(x, skip) if bias is None else g.add(x, bias, skip)


def is_a_residual(
    x: Tensor,
    skip: Tensor,
    gamma: Constant,
    epsilon: float,
    beta: Constant | None = None,
    bias: Constant | None = None,
) -> None:
    """What ONNX Runtime's kernel takes: two or three axes, of equal sizes, and vectors over the last."""
    require(x.shape is not None and skip.shape is not None, "the shapes of both summands must be known")
    require(x.shape == skip.shape, "both summands must be known to have the same shape")
    require(x.rank in (2, 3), "the summands must have two or three axes")
    require(epsilon >= 0, "ONNX Runtime's kernel takes no negative epsilon")
    for vector in (gamma, beta, bias):
        if vector is not None:
            require(vector.dtype == x.dtype, "scale and bias must have the dtype of the summands")
            require(vector.shape == x.shape[-1:], "scale and bias must be vectors over the last axis")
