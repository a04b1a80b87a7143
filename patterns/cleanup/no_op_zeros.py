"""Tensors filled with one number that are multiplied, added or cast, as exporters write for baddbmm."""

from typing import Any

import numpy as np
from onnx import numpy_helper

from surgeon import Captures, Constant, Graph, Tensor, require, rule
from .._common.axes import broadcasts_to


class FilledTensor(Captures):
    """A number, the shape that it fills, and the other operand of a product or sum, or the result of a Cast."""

    x: Tensor | Any = None
    full: Tensor
    made: Tensor | Any = None
    to: int | Any = None
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


def converted(g: Graph, m: FilledTensor) -> Tensor:
    """The filled tensor in another dtype."""
    m.made = g.cast(full(g, m), to=m.to)
    return m.made


@rule(patterns=[converted], target="any")
def cast_full(g: Graph, m: FilledTensor) -> Tensor:
    """Cast a number before it is expanded to a shape.

    What: Cast of a ConstantOfShape or an Expand of one number.
    Numerics: none.  An integer that the new dtype cannot represent stays, because runtimes cast it differently.
    """
    require(m.value.size == 1, "more than one number is expanded")
    require(m.made.dtype is not None and m.made.dtype.kind not in "OSU", "the Cast does not return numbers")
    with np.errstate(all="ignore"):
        number = m.value.astype(m.made.dtype)
        is_kept = m.made.dtype in (np.bool_, np.float32, np.float64) or bool(np.all(number == m.value))
    require(is_kept, f"{m.made.dtype} cannot represent {m.value.item()}")
    return g.expand(number, m.shape) if m.number is not None else g.constant_of_shape(m.shape, value=number.reshape(1))


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
