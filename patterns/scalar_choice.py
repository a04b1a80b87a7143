"""Numbers that are spread to a shape only to be chosen from."""

from typing import Any

import numpy as np
from onnx import numpy_helper

from surgeon import Captures, Graph, Tensor, require, rule


class Chosen(Captures):
    """x, and a number in its place; kept, hidden: the condition for x to stay, or not to.

    number: that which is spread; attributes: those of the ConstantOfShape that spreads it.
    """

    x: Tensor
    y: Tensor
    kept: Tensor | Any = None
    hidden: Tensor | Any = None
    number: float | Any = None
    attributes: dict[str, Any] | Any = None

    def told(self) -> Any:
        """The number, in the dtype of x."""
        value: Any = (self.attributes or {}).get("value", 0.0) if self.number is None else self.number
        return np.ravel(numpy_helper.to_array(value) if hasattr(value, "dims") else value)[0].astype(self.x.dtype)


def of_expanded(g: Graph, m: Chosen) -> Tensor:
    """x, or a number in a shape of its own."""
    return chosen(g, m, g.expand(m.number, g.any_tensor()))


def of_filled(g: Graph, m: Chosen) -> Tensor:
    """The same, where a tensor of that shape is made of it."""
    return chosen(g, m, g.constant_of_shape(g.any_tensor(), **m.attributes))


def chosen(g: Graph, m: Chosen, full: Tensor) -> Tensor:
    """x, or what is full of one number."""
    m.y = g.any_of(g.where(m.kept, m.x, full), g.where(m.hidden, full, m.x))
    return m.y


@rule(patterns=[of_expanded, of_filled], target="any", opset=9)
def scalar_choice(g: Graph, m: Chosen) -> Tensor:
    """Choose between a tensor and a number, where the number is spread to the tensor's shape for that.

    What: Where with an Expand of a number, or a ConstantOfShape, that has no more axes or elements than the other, as
    torch's zeros_like is exported; an attention is found by it that sets rows without weights to zero.
    Numerics: none.
    """
    require(m.x.shape is not None and m.x.shape == m.y.shape, "the choice may have another shape")
    require(m.x.dtype is not None, "the dtype is unknown")
    return g.where(m.hidden, m.told(), m.x) if m.kept is None else g.where(m.kept, m.x, m.told())
