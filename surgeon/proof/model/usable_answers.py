"""Whether the outputs of a model for one set of inputs are usable."""

from collections.abc import Mapping

import numpy as np

from surgeon.runtime.numerics.array_comparison import TOLERANCES, dtype_name, same_values, tolerance


def non_repeating_outputs(outputs: Mapping[str, np.ndarray], again: Mapping[str, np.ndarray]) -> list[str]:
    """Return the outputs that a second run did not repeat bit for bit (NaN equal to NaN)."""
    return [name for name in outputs if name not in again or not same_values(outputs[name], again[name])]


def has_informative_outputs(outputs: Mapping[str, np.ndarray], usual: Mapping[str, np.ndarray]) -> bool:
    """Whether some number is finite in each output that usually has finite ones."""
    floats = {name: np.isfinite(array) for name, array in outputs.items() if dtype_name(array) in TOLERANCES}
    for name, finite in floats.items():
        expected = finite.size and name in usual and bool(np.isfinite(usual[name]).any())
        if expected and not finite.any():
            return False
    return not floats or any(finite.any() for finite in floats.values())


def all_nan(outputs: Mapping[str, np.ndarray]) -> bool:
    """Whether all outputs are NaN throughout."""
    floats = [array for array in outputs.values() if tolerance(dtype_name(array)) != (0.0, 0.0)]
    return (
        bool(floats)
        and len(floats) == len(outputs)
        and all(bool(np.isnan(array.flat[:1]).all() and np.isnan(array).all()) for array in floats)
    )
