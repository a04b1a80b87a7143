"""What nearly every region has, as onnx's evaluator computes it too.

Where nothing else is asked of that, its modules of all operators are not loaded: 258 of them, 0.07 s of processor time.
"""

from collections.abc import Callable
from typing import Any

import numpy as np


def _of_one_dtype(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    """A function of two tensors whose dtypes have to be the same, as an operator has it."""

    def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if a.dtype != b.dtype:
            raise TypeError(f"The inputs are of {a.dtype} and of {b.dtype}: they have to be of one dtype.")
        return function(a, b)

    return compute


def _divided(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A quotient, of integers without its fraction (ONNX, "Div": truncated towards zero)."""
    if a.dtype.kind not in "iu":
        return np.asarray(np.divide(a, b))
    whole = np.floor_divide(a, b)
    return np.asarray(whole + ((np.remainder(a, b) != 0) & ((a < 0) ^ (b < 0))).astype(whole.dtype))


BASIC_KERNELS: dict[tuple[str, str], Callable[..., Any]] = {
    ("", "Add"): _of_one_dtype(np.add),
    ("", "Div"): _of_one_dtype(_divided),
    ("", "Exp"): np.exp,
    ("", "Mul"): _of_one_dtype(np.multiply),
    ("", "Neg"): np.negative,
    ("", "Sqrt"): np.sqrt,
    ("", "Sub"): _of_one_dtype(np.subtract),
    ("", "Tanh"): np.tanh,
}
"""Functions by domain and name of the operator."""
