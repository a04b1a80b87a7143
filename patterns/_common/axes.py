"""Checks of the axes of a normalisation, and of the tensors that scale and shift its result."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from surgeon import Constant, Tensor, require

Array = np.ndarray[Any, np.dtype[Any]]


def has_explicit_axes(axes: Sequence[int] | None = (-1,)) -> None:
    """Refuse a reduction without axes: it reduces all axes (ONNX spec, ReduceMean).  Some patterns capture no axes."""
    require(bool(axes), "a reduction has no axes, so it reduces all of them")


def require_trailing_axes(x: Tensor, axes: Sequence[int]) -> int:
    """Return the first of the axes, counted from the end.  Refuse axes that are not the last ones of x."""
    counted = negative_axes(x, axes)
    require(sorted(counted) == list(range(-len(axes), 0)), "the axes must be the last ones")
    return -len(axes)


def negative_axes(x: Tensor, axes: Sequence[int]) -> list[int]:
    """Return axes counted from the end.  Refuse them if that needs the rank of x and the rank is unknown."""
    if all(axis < 0 for axis in axes):
        return list(axes)
    require(x.rank is not None, "the rank of the input is unknown, so its axes cannot be counted from the end")
    return [axis if axis < 0 else axis - x.rank for axis in axes]


def trailing_axes(x: Tensor, axis: int, *factors: Tensor | None) -> list[int]:
    """Return the axes from one axis to the last, counted from the end.  Refuse factors that broadcast to them."""
    (first,) = negative_axes(x, [axis])
    for factor in factors:
        if factor is not None and factor.shape is not None and x.shape is not None:
            pairs = list(zip(factor.shape[::-1], x.shape[::-1], strict=False))
            same = all(one == other for one, other in pairs if isinstance(one, int) and isinstance(other, int))
            require(factor.rank == -first and same, "scale and bias must have the shape of the normalised axes")
    return list(range(first, 0))


def require_normalized_shape(x: Tensor, first: int, *tensors: Tensor | Array | None) -> None:
    """Refuse a scale or bias that does not have the dtype of x and the shape of its axes from `first` on."""
    for tensor in tensors:
        if tensor is not None:
            require(tensor.dtype == x.dtype, "scale and bias must have the dtype of the input")
            require(tensor.shape is not None and x.shape is not None, "the shapes must be known")
            require(tensor.shape == x.shape[first:], "scale and bias must have the shape of the normalised axes")


def as_norm_scale(x: Tensor, first: int, scale: Tensor | None) -> Tensor | Array | None:
    """Return a scale of the axes from `first` on, counted from the end, in the dtype of x.  Constants may be converted.

    The scale may have leading axes of size 1, and it may be a half-precision constant that was widened.  The function
    refuses the same scales as `require_normalized_shape`.
    """
    found = as_half_constant(x, scale)
    ahead = () if found is None or found.shape is None else found.shape[:first]
    fits = found is None or None in (found.shape, x.shape) or len(found.shape) <= len(x.shape)
    require(fits, "the scale or bias has more axes than the input, so the result has more axes too")
    if ahead and set(ahead) == {1} and isinstance(found, (np.ndarray, Constant)):
        values: Array = found if isinstance(found, np.ndarray) else found.values
        found = values.reshape(values.shape[first:])
    require_normalized_shape(x, first, found)
    return found


def as_half_constant(x: Tensor, scale: Tensor | None) -> Tensor | Array | None:
    """Return a constant scale in the half precision of x if that loses no digit: exporters fold its Cast to float32."""
    if scale is None or x.dtype not in ("float16", "bfloat16") or scale.dtype == x.dtype or not scale.is_constant:
        return scale
    with np.errstate(over="ignore"):
        narrow = scale.values.astype(x.dtype)
    return narrow if np.array_equal(narrow.astype(scale.dtype), scale.values) else scale


def scale_or_ones(x: Tensor, scale: Tensor | Array | None, first: int) -> Tensor | Array:
    """Return the scale, or ones in the dtype of x for its axes from `first` on.  Refuse axes of unknown size."""
    if scale is not None:
        return scale
    require(x.shape is not None, "the shape of the input must be known to create a scale of ones")
    found = x.shape[first:]
    require(
        all(isinstance(size, int) for size in found), "the sizes of the axes must be known to create a scale of ones"
    )
    return np.ones(found, x.dtype)


def broadcasts_to(own: Sequence[Any], whole: Sequence[Any]) -> bool:
    """Return whether one shape broadcasts to another and leaves it unchanged."""
    pairs = zip(own[::-1], whole[::-1], strict=False)
    return len(own) <= len(whole) and all(size in (1, wanted) for size, wanted in pairs)


def is_same_size(size: Any, whole: Any) -> bool:
    """Return whether two sizes of one axis are equal wherever the model runs."""
    pairs = [(one, other) for one, other in ((size, whole), (whole, size)) if not isinstance(one, int)]
    return bool(size == whole or any(one.is_min_with_number(other) or one.is_total_of(other) for one, other in pairs))


def is_within(size: Any, whole: Any) -> bool:
    """Return whether a size is 1 or equals another one wherever the model runs: it never broadcasts the other then."""
    if size == 1 or (isinstance(whole, int) and whole > 1) or is_same_size(size, whole):
        return True
    return not isinstance(size, int) and bool(size.is_min_with_one(whole))
