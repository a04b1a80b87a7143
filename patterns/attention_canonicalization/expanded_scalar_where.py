"""Numbers that are expanded to a shape only for a Where."""

from typing import Any

import numpy as np
from onnx import numpy_helper

from surgeon import Graph, Tensor, require, rule
from .._common.where_masks import WhereMask, where_masked


class Chosen(WhereMask):
    """x, and a number that a condition selects instead.

    attributes: those of the ConstantOfShape that expands the number.
    """

    x: Tensor
    y: Tensor
    number: float | Any = None
    attributes: dict[str, Any] | Any = None


def of_spread(g: Graph, m: Chosen) -> Tensor:
    """Where of x and a scalar that Expand or ConstantOfShape broadcasts to a shape."""
    shape = g.any_tensor()
    spread = g.any_of(g.expand(m.number, shape), g.constant_of_shape(shape, **m.attributes))
    m.y = where_masked(g, m, m.x, spread)
    return m.y


@rule(patterns=[of_spread], target="any", opset=9)
def expanded_scalar_where(g: Graph, m: Chosen) -> Tensor:
    """Pass a number directly to a Where, if it is expanded to the shape of the other tensor.

    What: Where with an Expand of a number, or with a ConstantOfShape, that does not have more axes or elements than the
    other tensor. zeros_like of torch is exported like this.  Then the attention rules match attention that sets rows
    without weights to zero.
    Numerics: none.
    """
    require(m.x.shape is not None and m.x.shape == m.y.shape, "the result of the Where may have another shape")
    require(m.x.dtype is not None, "the dtype is unknown")
    value: Any = (m.attributes or {}).get("value", 0.0) if m.number is None else m.number
    number = np.ravel(numpy_helper.to_array(value) if hasattr(value, "dims") else value)[0]
    return where_masked(g, m, m.x, number.astype(m.x.dtype))
