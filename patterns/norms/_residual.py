"""Code that the rules of a residual and the norm after it share."""

from collections.abc import Callable
from typing import Any

from surgeon import Captures, Graph, Tensor, require
from .._common.floats import half_to_float32


class Residual(Captures):
    """Two tensors and a bias that are added, and the attributes of the norm of their sum.  RMSNorm has no beta."""

    x: Tensor
    skip: Tensor
    bias: Tensor | Any = None
    gamma: Tensor
    beta: Tensor | Any = None
    epsilon: float


def any_residual(g: Graph, m: Residual) -> Tensor:
    """x + bias + skip, or x + skip."""
    return g.any_of(g.add(m.x, m.bias, m.skip), g.add(m.x, m.skip))


def either_biased(
    g: Graph, m: Residual, node: Callable[[Graph, Residual], tuple[Tensor, Tensor]]
) -> tuple[Tensor, ...]:
    """A fused node without a bias, with a bias on either of the tensors that it adds, and the sum."""
    first, second = {"x": g.add(m.x, m.bias)}, {"skip": g.add(m.skip, m.bias)}
    made = [node(g, m.but(**changed, bias=None)) for changed in (first, second)]
    return tuple(g.any_of(*outputs) for outputs in zip(*made, strict=True))


def residual_sum(g: Graph, m: Residual) -> Tensor:
    """x + skip + bias, with an optional bias, in the order of the kernel, because x and skip may cancel.

    Half precision is added in float32, as in the kernel, and stays float32 for the norm.
    """
    return g.add(*(half_to_float32(g, part) for part in (m.x, m.skip, m.bias) if part is not None))


def is_added(m: Residual) -> None:
    """Require Add nodes.  A Sum of two tensors matches too, but `residual_sum` writes it to keep the nodes apart."""
    is_sum = any(node.proto.op_type == "Sum" for node in m.match.nodes)
    require(not is_sum, "a Sum before a norm keeps the two apart, which is faster on a CPU")


def fits_skip_norm_kernel(m: Residual) -> None:
    """Require inputs that the kernel of ONNX Runtime supports: two or three axes, and vectors.

    All elements of a batch may have one skip (skip_layer_norm_helper.h).
    """
    require(m.x.shape is not None and m.skip.shape is not None, "the shapes of both inputs of the Add must be known")
    require(m.x.rank in (2, 3), "the inputs of the Add must have two or three axes")
    whole = m.x.shape
    fitting = (whole, whole[1:], (1, *whole[1:])) if len(whole) == 3 else (whole,)
    require(m.skip.shape in fitting, "both inputs of the Add must have the same known shape")  # apart from the batch
    require(m.epsilon >= 0, "the kernel of ONNX Runtime does not support a negative epsilon")
    for vector in (m.gamma, m.beta, m.bias):
        if vector is not None:
            require(vector.dtype == m.x.dtype, "scale and bias must have the dtype of the inputs of the Add")
            require(vector.shape == m.x.shape[-1:], "scale and bias must be vectors over the last axis")
