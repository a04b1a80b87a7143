"""Numbers as a person writes them: 1.4142135 is `2**0.5`, and 9.9999997e-06 in float32 is `1e-05`."""

import math
from typing import Any

import numpy as np

from surgeon.learning.terms import Array

NAMED: dict[str, float] = {
    "2**0.5": 2**0.5,
    "2**-0.5": 2**-0.5,
    "(2 / math.pi) ** 0.5": (2 / math.pi) ** 0.5,
    "(2 * math.pi) ** 0.5": (2 * math.pi) ** 0.5,
    "(2 * math.pi) ** -0.5": (2 * math.pi) ** -0.5,
    "math.pi": math.pi,
    "math.pi / 2": math.pi / 2,
    "2 * math.pi": 2 * math.pi,
    "math.e": math.e,
    "math.log(2)": math.log(2),
    "1 / math.log(2)": 1 / math.log(2),
    "math.log(10)": math.log(10),
    "3**0.5": 3**0.5,
    "3**-0.5": 3**-0.5,
}


def numeral(number: Any) -> str:
    """A Python, NumPy or ml_dtypes number as short Python source that stands for it."""
    if isinstance(number, (bool, np.bool_)):
        return str(bool(number))
    if isinstance(number, (int, np.integer)):
        return str(int(number))
    value = float(number)
    if not math.isfinite(value):
        return "math.nan" if math.isnan(value) else f"{'-' if value < 0 else ''}math.inf"
    dtype = np.asarray(number).dtype
    eps = 1e-12 if dtype == np.float64 else _eps(dtype)
    shortest = repr(value) if dtype == np.float64 else str(number)
    if len(shortest.lstrip("-").replace(".", "").strip("0")) > 3:
        for text, exact in NAMED.items():
            if abs(abs(value) - exact) <= eps * exact:
                sign = "-" if value < 0 else ""
                return f"{sign}({text})" if sign and not text.startswith("(") else f"{sign}{text}"
    return repr(float(shortest))


def _eps(dtype: np.dtype[Any]) -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).eps)


def listed(array: Array | list[Any]) -> str:
    """A list of numbers, nested like the array."""
    if isinstance(array, np.ndarray) and array.ndim == 0:
        return numeral(array[()])
    if not isinstance(array, (list, np.ndarray)):
        return numeral(array)
    return f"[{', '.join(listed(item) for item in array)}]"
