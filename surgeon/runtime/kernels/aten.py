"""ATen's elementwise functions of one argument as numpy formulas, by ATen's names.

Source: the documentation of the functions of the same names in torch.
"""

from collections.abc import Callable

import numpy as np

from surgeon.runtime.kernels.erf import Array, erf


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(−x)), without overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small / (1 + small), 1 / (1 + small)).astype(x.dtype)


def mish(x: Array) -> Array:
    """x · tanh(log(1 + exp(x)))."""
    return x * np.tanh(np.logaddexp(0, x))


def hardswish(x: Array) -> Array:
    """x · min(max(x + 3, 0), 6) / 6."""
    return (x * np.clip(x / 6 + 0.5, 0, 1)).astype(x.dtype)


ATEN_ELEMENTWISE: dict[str, Callable[[Array], Array]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "bitwise_not": np.bitwise_not,
    "ceil": np.ceil,
    "cosh": np.cosh,
    "erf": erf,
    "hardswish": hardswish,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "logical_not": np.logical_not,
    "mish": mish,
    "round": np.round,
    "sinh": np.sinh,
    "tan": np.tan,
}
