"""What the rules of a residual and the norm behind it have in common."""

from typing import Any

from surgeon import Captures, Constant, Graph, Tensor, require
from .._common.floats import half_to_float32


class Summed(Captures):
    """Two tensors and a bias that are added up, and the settings of the norm of their sum: RMSNorm has no beta."""

    x: Tensor
    skip: Tensor
    bias: Tensor | Any = None
    gamma: Tensor
    beta: Tensor | Any = None
    epsilon: float


class Residual(Summed):
    """The same before it is fused into one node."""

    bias: Constant | Any = None
    gamma: Constant
    beta: Constant | Any = None


def any_residual(g: Graph, m: Residual) -> Tensor:
    """x + bias + skip, or x + skip."""
    return g.any_of(g.add(m.x, m.bias, m.skip), g.add(m.x, m.skip))


def residual_sum(g: Graph, m: Summed) -> Tensor:
    """x + skip + bias, in which the bias may be left out: in the kernel's order, as the first two may cancel.

    Half precision is added in float32, as the kernel does, and stays so for the norm.
    """
    return g.add(*(half_to_float32(g, part) for part in (m.x, m.skip, m.bias) if part is not None))


def fits_skip_norm_kernel(m: Residual) -> None:
    """What ONNX Runtime's kernel takes: two or three axes, of equal sizes, and vectors over the last."""
    require(m.x.shape is not None and m.skip.shape is not None, "the shapes of both summands must be known")
    require(m.x.shape == m.skip.shape, "both summands must be known to have the same shape")
    require(m.x.rank in (2, 3), "the summands must have two or three axes")
    require(m.epsilon >= 0, "ONNX Runtime's kernel takes no negative epsilon")
    for vector in (m.gamma, m.beta, m.bias):
        if vector is not None:
            require(vector.dtype == m.x.dtype, "scale and bias must have the dtype of the summands")
            require(vector.shape == m.x.shape[-1:], "scale and bias must be vectors over the last axis")
