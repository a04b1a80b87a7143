"""Sums with a tensor of zeros that is made for them."""

from typing import Any

import numpy as np
from onnx import numpy_helper

from surgeon import Graph, Tensor, require, rule


def filled(g: Graph, x: Tensor, factor: float, **attributes: Any) -> Tensor:
    """x plus a tensor of one number everywhere, perhaps times another."""
    full = g.constant_of_shape(g.any_tensor(), **attributes)
    return g.capture("y", g.add(x, g.any_of(g.mul(full, factor), full)))


@rule(patterns=[filled], target="any")
def no_op_zeros(g: Graph, x: Tensor, y: Tensor, attributes: dict[str, Any], factor: float = 1.0) -> Tensor:
    """Take out sums with a tensor of zeros that has no more axes or elements.

    What: Add of a ConstantOfShape whose value, times the number that it is multiplied with, is 0: what exporters make
    of baddbmm with beta=0.
    Numerics: none, but for −0, which becomes 0 in a sum.
    """
    value = attributes.get("value", 0.0)
    number = float(np.ravel(value if not hasattr(value, "dims") else numpy_helper.to_array(value))[0])
    require(np.isfinite(number) and np.isfinite(factor) and number * factor == 0, "what is added is not zero")
    require(x.shape is not None and x.shape == y.shape, "the sum may have another shape")
    return x
