"""Resize and Upsample as numpy formulas: one axis after the other, each a weighted sum of its elements.

Source: the text of Resize in onnx.defs.  Like every kernel, it computes sizes in float32, and also coordinates that are
rounded (mode nearest, and the outside of tf_crop_and_resize).  Other coordinates are in float64.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surgeon.runtime.kernels.erf import Array


@dataclass(frozen=True, slots=True)
class _Length:
    """How one axis is resized."""

    size: int
    """Elements before."""
    count: int
    """Elements after."""
    scale: float
    """Ratio of output to input."""
    begin: float = 0.0
    """Start of the region of interest, as a part of the axis."""
    end: float = 1.0
    """End of the region of interest, as a part of the axis."""

    @property
    def stays(self) -> bool:
        """Whether the axis does not change."""
        return self.scale == 1 and self.size == self.count and (self.begin, self.end) == (0, 1)


@dataclass(frozen=True, slots=True)
class _Manner:
    """Attributes of Resize that determine how elements are computed."""

    mode: str
    """`mode`."""
    transformation: str
    """`coordinate_transformation_mode`."""
    rounding: str
    """`nearest_mode`."""
    cubic: float
    """`cubic_coeff_a`."""
    exclude: bool
    """`exclude_outside`."""
    antialias: bool
    """`antialias`."""


def resize(
    x: Array,
    *inputs: Array | None,
    mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    keep_aspect_ratio_policy: str = "stretch",
    opset: int = 13,
) -> Array:
    """Resize.  inputs: roi, scales and sizes; before opset 11 only scales, with the coordinates of Upsample.

    Returns x's dtype.  Raises ValueError for unknown modes, and if kernels disagree.
    """
    if opset < 11:
        return upsample(x, *inputs, mode=mode)
    roi, scales, sizes = (*inputs, None, None, None)[:3]
    chosen = [axis % x.ndim for axis in axes] if axes else list(range(x.ndim))
    lengths = _lengths(x.shape, chosen, _given(scales), sizes=_given(sizes), policy=keep_aspect_ratio_policy)
    if coordinate_transformation_mode == "tf_crop_and_resize":
        if roi is None:
            raise ValueError("tf_crop_and_resize needs the input roi")
        for place, axis in enumerate(chosen):
            one = lengths[axis]
            begin, end = float(roi[place]), float(roi[len(chosen) + place])
            if one.scale == 1 and (begin, end) != (0, 1):
                raise ValueError("ONNX Runtime and the standard disagree on roi for an axis of scale 1")
            lengths[axis] = _Length(one.size, one.count, one.scale, begin=begin, end=end)
    manner = _Manner(
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        cubic=cubic_coeff_a,
        exclude=bool(exclude_outside),
        antialias=bool(antialias),
    )
    return _resized(x, lengths, manner, extrapolation_value)


def upsample(x: Array, scales_input: Array | None = None, *, mode: str = "nearest", scales: Any = None) -> Array:
    """Upsample, and Resize before opset 11: "asymmetric" coordinates, and the nearest element is the one before.

    Scales are an input from opset 9 on, and an attribute before.
    """
    factors = _given(np.asarray(scales) if scales_input is None else scales_input)
    lengths = _lengths(x.shape, list(range(x.ndim)), factors, sizes=None, policy="stretch")
    return _resized(x, lengths, _Manner(mode, "asymmetric", "simple", cubic=-0.75, exclude=False, antialias=False), 0.0)


def _given(values: Array | None) -> Array | None:
    """Return an input; None if it is omitted or empty."""
    return None if values is None or not values.size else values


def _lengths(
    shape: Sequence[int], axes: Sequence[int], scales: Array | None, sizes: Array | None, policy: str
) -> list[_Length]:
    """The change of each axis.  Raises ValueError unless each of `axes` has one scale or size."""
    given = scales if sizes is None else sizes
    if given is None or (scales is not None and sizes is not None) or len(given) != len(axes):
        raise ValueError(f"either scales or sizes must have one number for each of {len(axes)} axes")
    lengths = [_Length(size, size, 1.0) for size in shape]
    if sizes is not None:
        ratios = [float(np.float32(count) / np.float32(shape[axis])) for count, axis in zip(sizes, axes, strict=True)]
        counts = [int(count) for count in sizes]
        if policy != "stretch":
            ratio = min(ratios) if policy == "not_larger" else max(ratios)
            ratios = [ratio] * len(axes)
            counts = [math.floor(np.float32(ratio) * np.float32(shape[axis]) + np.float32(0.5)) for axis in axes]
    else:
        ratios = [float(ratio) for ratio in given]
        pairs = zip(ratios, axes, strict=True)
        counts = [math.floor(np.float32(ratio) * np.float32(shape[axis])) for ratio, axis in pairs]
    for axis, ratio, count in zip(axes, ratios, counts, strict=True):
        lengths[axis] = _Length(shape[axis], count, ratio)
    return lengths


def _resized(x: Array, lengths: Sequence[_Length], manner: _Manner, extrapolation: float) -> Array:
    """Resize each axis separately; elements outside the axis of a cropped region become `extrapolation`."""
    made = x if x.dtype.kind == "f" or manner.mode == "nearest" else x.astype(np.float64)
    for axis, length in enumerate(lengths):
        if length.stays:
            continue
        if manner.mode == "nearest":
            made = np.take(made, _nearest(_places(length, manner.transformation, np.float32), length, manner), axis)
        else:
            made = _weighted(made, axis, length, manner)
    if manner.transformation == "tf_crop_and_resize":
        for axis, length in enumerate(lengths):
            places = _places(length, manner.transformation, np.float32)
            outside = (places < 0) | (places > length.size - 1)
            if outside.any():
                made = np.where(outside.reshape(-1, *(1 for _ in x.shape[axis + 1 :])), extrapolation, made)
    return made.astype(x.dtype)


def _places(length: _Length, transformation: str, kind: type[Any]) -> Array:
    """Return the coordinate in the input of each element of the output, in elements: [count], of dtype `kind`."""
    at = np.arange(length.count, dtype=kind)
    scale, half = kind(length.scale), kind(0.5)
    if transformation == "pytorch_half_pixel" and length.count <= 1:
        return np.zeros_like(at)
    if transformation in ("half_pixel", "pytorch_half_pixel"):
        return (at + half) / scale - half
    if transformation == "half_pixel_symmetric":
        adjustment = kind(length.count) / (scale * kind(length.size))
        offset = kind(length.size) / kind(2) * (1 - adjustment)
        return offset + (at + half) / scale - half
    if transformation == "align_corners":
        last = kind(length.size - 1)
        return np.zeros_like(at) if length.count == 1 else at * last / kind(length.count - 1)
    if transformation == "asymmetric":
        # A scale from two sizes: compute ties from the sizes, so that 3.5 does not become 3.4999998.
        is_ratio = scale == kind(length.count) / kind(length.size)
        return at * kind(length.size) / kind(length.count) if is_ratio else at / scale
    if transformation == "tf_half_pixel_for_nn":
        return (at + half) / scale
    if transformation == "tf_crop_and_resize":
        begin, end, last = kind(length.begin), kind(length.end), kind(length.size - 1)
        if length.count <= 1:
            return np.full_like(at, half * (begin + end) * last)
        return begin * last + at * (end - begin) * last / kind(length.count - 1)
    raise ValueError(f"unknown coordinate_transformation_mode '{transformation}'")


def _nearest(places: Array, length: _Length, manner: _Manner) -> Array:
    """Return the index of the element that is nearest to each coordinate."""
    half = np.asarray(0.5, dtype=places.dtype)
    if manner.rounding == "round_prefer_floor":
        found = np.ceil(places - half)
    elif manner.rounding == "round_prefer_ceil":
        found = np.floor(places + half)
    elif manner.rounding == "ceil" or (manner.rounding == "simple" and length.scale < 1):
        found = np.ceil(places)
    elif manner.rounding in ("floor", "simple"):
        found = np.floor(places)
    else:
        raise ValueError(f"unknown nearest_mode '{manner.rounding}'")
    return np.clip(found, 0, length.size - 1).astype(np.int64)


def _weighted(x: Array, axis: int, length: _Length, manner: _Manner) -> Array:
    """Return the weighted sums, along one axis, of the elements around each coordinate."""
    taken, weights = _around(_places(length, manner.transformation, np.float64), length, manner)
    shape = (-1, *(1 for _ in x.shape[axis + 1 :]))
    made = 0
    for elements, factors in zip(taken.T, weights.T, strict=True):
        made = made + np.take(x, elements, axis) * factors.reshape(shape).astype(x.dtype)
    return made


def _around(places: Array, length: _Length, manner: _Manner) -> tuple[Array, Array]:
    """Return the elements that count for each coordinate [count, taps], and their weights; edges are repeated."""
    reach = {"linear": 1, "cubic": 2}.get(manner.mode)
    if reach is None:
        raise ValueError(f"unknown mode '{manner.mode}'")
    last = length.size - 1
    squeezed = min(length.scale, 1.0) if manner.antialias else 1.0
    wide = math.ceil(reach / squeezed)
    places = np.clip(places, 0, last) if manner.mode == "linear" and not manner.antialias else places
    elements = np.floor(places)[:, None] + np.arange(1 - wide, 1 + wide)
    distances = np.abs(elements - places[:, None]) * squeezed
    weights = np.maximum(0, 1 - distances) if manner.mode == "linear" else _cubic(distances, manner.cubic)
    if manner.antialias:
        weights = weights / weights.sum(axis=1, keepdims=True)
    elif manner.mode == "linear":
        weights[places >= last] = 0.5  # the edge and its repetition: no weight of 0, which times infinity is NaN
    if manner.exclude:
        weights = np.where((elements < 0) | (elements > last), 0, weights)
        weights = weights / weights.sum(axis=1, keepdims=True)
    return np.clip(elements, 0, last).astype(np.int64), weights


def _cubic(distance: Array, a: float) -> Array:
    """Keys' cubic convolution ("Cubic convolution interpolation for digital image processing", 1981), eq. 4 and 15."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


RESIZING: dict[tuple[str, str], Callable[..., Any]] = {("", "Resize"): resize, ("", "Upsample"): upsample}
