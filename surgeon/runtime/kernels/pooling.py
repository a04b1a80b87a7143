"""MaxPool, AveragePool, LpPool and their global forms as numpy formulas: one axis after the other, without padding x.

Source: the texts of the operators in onnx.defs, and ONNX Runtime 1.31's kernels for NaN, which these do not mention.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from surgeon.runtime.kernels.erf import Array
from surgeon.runtime.kernels.sliding_windows import WindowAxis, taps, windows


def max_pool(
    x: Array, *, kernel_shape: Sequence[int], storage_order: int = 0, outputs: int = 1, **placing: Any
) -> Array | tuple[Array, Array]:
    """MaxPool of [N, C, ...]: the maxima in x's dtype, and with two outputs their int64 indices in the whole input.

    A window whose first element is NaN gives NaN.  Any other NaN is ignored, because ONNX Runtime compares with
    `x > greatest`.  Padding is less than any number.
    """
    axes = _windows(x, kernel_shape, **placing)
    if outputs < 2 and (x.dtype.kind in "iu" or not np.isnan(x).any()):
        for place, axis in enumerate(axes):
            x = _along(x, axis, place + 2, start=_lowest(x.dtype), joined=np.maximum)
        return x
    return _compared(x, axes, storage_order)


def _windows(x: Array, kernel: Sequence[int], **placing: Any) -> list[WindowAxis]:
    """Return the windows over [N, C, ...].

    Raises ValueError if the standard and ONNX Runtime disagree on the padding of SAME_UPPER and SAME_LOWER.  ONNX
    Runtime pads dilated windows as if they had no gaps, and the padding may be negative.
    """
    axes = windows(x.shape[2:], kernel, **placing)
    if str(placing.get("auto_pad", "")).startswith("SAME"):
        if any(axis.dilation > 1 for axis in axes):
            raise ValueError("ONNX Runtime and the standard disagree on SAME padding of dilated windows")
        if any(axis.behind < 0 for axis in axes):
            raise ValueError("ONNX Runtime and the standard disagree on SAME padding if windows do not cover an axis")
    return axes


def _lowest(dtype: np.dtype[Any]) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def _along(x: Array, axis: WindowAxis, place: int, start: Any, joined: Callable[..., Array]) -> Array:
    """Reduce the elements of each window along one axis of x."""
    made = np.full((*x.shape[:place], axis.count, *x.shape[place + 1 :]), start, dtype=x.dtype)
    before = (slice(None),) * place
    for tap in range(axis.kernel):
        into, out_of = axis.reach(tap)
        target = made[(*before, into)]
        joined(target, x[(*before, out_of)], out=target)
    return made


def _compared(x: Array, axes: Sequence[WindowAxis], storage_order: int) -> tuple[Array, Array]:
    """Compare the elements of each window in order; return the greatest and their indices."""
    sizes = x.shape[2:]
    numbers = np.arange(math.prod(sizes)).reshape(sizes, order="F" if storage_order else "C")
    planes = np.arange(math.prod(x.shape[:2])).reshape(*x.shape[:2], *(1 for _ in axes)) * numbers.size
    made = np.full((*x.shape[:2], *(axis.count for axis in axes)), _lowest(x.dtype), dtype=x.dtype)
    found = np.full(made.shape, -1)
    for _, into, out_of in taps(axes):
        into, out_of = (slice(None), slice(None), *into), (slice(None), slice(None), *out_of)
        best, where, value = made[into], found[into], x[out_of]
        better = (value > best) | (where < 0)
        np.copyto(best, value, where=better)
        np.copyto(where, numbers[out_of[2:]], where=better)
    return made, np.where(found < 0, found, found + planes)


def average_pool(x: Array, *, kernel_shape: Sequence[int], count_include_pad: int = 0, **placing: Any) -> Array:
    """AveragePool of [N, C, ...] in x's dtype.  Padding counts if `count_include_pad`; anything beyond never counts."""
    axes = _windows(x, kernel_shape, **placing)
    number: Array = np.ones((), dtype=x.dtype)
    for place, axis in enumerate(axes):
        x = _along(x, axis, place + 2, start=0, joined=np.add)
        number = number[..., None] * _counted(axis, bool(count_include_pad))
    return (x / number).astype(x.dtype)


def _counted(axis: WindowAxis, padding: bool) -> Array:
    """Return the number of elements that count in each window of an axis."""
    at = np.arange(axis.count)[:, None] * axis.stride + np.arange(axis.kernel) * axis.dilation - axis.pad_begin
    low, high = (-axis.pad_begin, axis.size + axis.pad_end) if padding else (0, axis.size)
    return ((at >= low) & (at < high)).sum(axis=1)


def lp_pool(x: Array, *, kernel_shape: Sequence[int], p: float = 2, **placing: Any) -> Array:
    """LpPool of [N, C, ...] in x's dtype: the p-th root of the sum of |x|^p in each window."""
    total = np.abs(x) ** p
    for place, axis in enumerate(_windows(x, kernel_shape, **placing)):
        total = _along(total, axis, place + 2, start=0, joined=np.add)
    return (total ** (1 / p)).astype(x.dtype)


def _spatial(x: Array) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


def global_average_pool(x: Array) -> Array:
    """GlobalAveragePool of [N, C, ...]: [N, C, 1, ...]."""
    return x.mean(axis=_spatial(x), keepdims=True)


def global_max_pool(x: Array) -> Array:
    """GlobalMaxPool of [N, C, ...]: [N, C, 1, ...].  NaN if any element is NaN."""
    return x.max(axis=_spatial(x), keepdims=True)


def global_lp_pool(x: Array, *, p: float = 2) -> Array:
    """GlobalLpPool of [N, C, ...]: [N, C, 1, ...]."""
    return ((np.abs(x) ** p).sum(axis=_spatial(x), keepdims=True) ** (1 / p)).astype(x.dtype)


POOLINGS: dict[tuple[str, str], Callable[..., Any]] = {
    ("", "MaxPool"): max_pool,
    ("", "AveragePool"): average_pool,
    ("", "LpPool"): lp_pool,
    ("", "GlobalAveragePool"): global_average_pool,
    ("", "GlobalMaxPool"): global_max_pool,
    ("", "GlobalLpPool"): global_lp_pool,
}
