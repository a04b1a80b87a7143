"""Tensors filled with one number that are multiplied or added, as exporters write for baddbmm."""

from typing import Any

import numpy as np
from onnx import numpy_helper

from surgeon import Captures, Constant, Graph, Tensor, require, rule
from .._common.axes import broadcasts_to


class FilledTensor(Captures):
    """A number, the shape that it fills, and the other operand of a product or sum."""

    x: Tensor | Any = None
    full: Tensor
    factor: Constant | Any = None
    shape: Tensor
    number: Constant | Any = None
    attributes: dict[str, Any] | Any = None

    @property
    def value(self) -> np.ndarray[Any, Any]:
        """The number in its dtype, with axes of one if it has any."""
        if self.number is not None:
            return np.asarray(self.number.values)
        value = (self.attributes or {}).get("value")
        return np.zeros((), np.float32) if value is None else numpy_helper.to_array(value).reshape(())


def filled_tensor(g: Graph, m: FilledTensor) -> Tensor:
    """The filled tensor, as TorchScript or dynamo writes it."""
    made: Tensor = g.constant_of_shape(m.shape, **m.attributes)
    return g.any_of(g.shared(made), g.shared(g.expand(m.number, m.shape)))


def full(g: Graph, m: FilledTensor) -> Tensor:
    """The same, captured under a name."""
    m.full = filled_tensor(g, m)
    return m.full


def times(g: Graph, m: FilledTensor) -> Tensor:
    """The filled tensor times a number."""
    return g.mul(full(g, m), m.factor)


@rule(patterns=[times], target="any")
def scaled_full(g: Graph, m: FilledTensor) -> Tensor:
    """Multiply a number before it is expanded to a shape.

    What: Mul of a ConstantOfShape or an Expand of one number, and a number.
    Numerics: none.
    """
    require(m.value.size == m.factor.values.size == 1, "both factors must be a single number")
    require(m.full.rank is not None and m.factor.rank <= m.full.rank, "the product may have more axes")
    with np.errstate(all="ignore"):  # infinity times 0 is NaN here too
        product = m.value * m.factor.values.reshape(())
    return g.expand(product, m.shape)


def plus(g: Graph, m: FilledTensor) -> Tensor:
    """The filled tensor added to x."""
    return g.add(m.x, full(g, m))


@rule(patterns=[plus], target="any")
def no_op_zeros(g: Graph, m: FilledTensor) -> Tensor:
    """Remove the sum with a tensor of zeros that does not have more axes or elements.

    What: Add of a ConstantOfShape or an Expand of 0.
    Numerics: none, except that −0 becomes 0 in a sum.
    """
    require(not np.any(m.value), "the filled tensor must be zero")
    require(m.x.shape is not None and m.full.shape is not None, "a shape is unknown")
    require(m.full.rank <= m.x.rank, "the sum has more axes")
    require(broadcasts_to(m.full.shape, m.x.shape), "the sum may be larger")
    return m.x
