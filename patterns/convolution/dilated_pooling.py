"""Pooling that a target supports only in part: windows with dilations, and other powers."""

from math import prod
from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require, rule
from .._common.floats import half_to_float32
from ._pool_windows import NOT_A_NUMBER, PoolWindows, window_slices


def largest(g: Graph, m: PoolWindows) -> Any:
    """MaxPool."""
    return g.max_pool(m.x, kernel_shape=m.kernel, **m.attributes)


@rule(patterns=[largest], target="any", opset=11, lacking=True, dtypes="floats", differs=NOT_A_NUMBER)
def dilated_max_pool(g: Graph, m: PoolWindows) -> Tensor:
    """Write a MaxPool with dilations as the maximum of slices.

    What: one slice for each element of a window, if the target does not support dilations.
    Numerics: none.
    """
    require(m.x.dtype is not None, "the dtype of x is unknown")
    return g.max(*window_slices(g, m.x, m, np.array(-np.inf, m.x.dtype)))


def mean(g: Graph, m: PoolWindows) -> Tensor:
    """AveragePool."""
    return g.average_pool(m.x, kernel_shape=m.kernel, **m.attributes)


def total(g: Graph, parts: list[Tensor]) -> Tensor:
    """Return the sum of several tensors."""
    return g.add(*parts) if len(parts) > 1 else parts[0]


@rule(patterns=[mean], target="any", opset=19, lacking=True, dtypes="floats")
def dilated_average_pool(g: Graph, m: PoolWindows) -> Tensor:
    """Write an AveragePool with dilations as the mean of slices.

    What: one slice for each element of a window, if the target does not support dilations.  Slices of the padding count
    the elements.
    Numerics: rounding only.
    """
    require(m.x.dtype is not None, "the dtype of x is unknown")
    none, one = (np.array(number, m.x.dtype) for number in (0, 1))
    made = total(g, window_slices(g, m.x, m, none))
    if m.attributes.get("count_include_pad") or not any(m.sides()[2]):
        return g.div(made, np.array(prod(m.kernel), m.x.dtype))
    return g.div(made, total(g, window_slices(g, g.expand(g.literal(one), g.shape(m.x)), m, none)))


def power(g: Graph, m: PoolWindows, p: int) -> Tensor:
    """LpPool."""
    return g.lp_pool(m.x, kernel_shape=m.kernel, p=p, **m.attributes)


@rule(patterns=[power], target="any", opset=11, lacking=True, dtypes="floats")
def lp_pool(g: Graph, m: PoolWindows, p: int) -> Tensor:
    """Write an LpPool of another power, or with dilations, by the root of a sum of slices.

    What: (Σ |x|ᵖ)^(1/p) over each window, if the target supports only p = 1 and p = 2.
    Numerics: rounding only.
    """
    require(m.x.dtype is not None, "the dtype of x is unknown")
    wide = half_to_float32(g, m.x)
    raised = g.pow(g.abs(wide), np.array(p, wide.dtype))
    made = g.pow(total(g, window_slices(g, raised, m, np.array(0, wide.dtype))), np.array(1 / p, wide.dtype))
    return made if wide is m.x else g.cast(made, to=str(m.x.dtype))
