"""GatherElements, Scatter, Pad and LpNormalization as numpy formulas, because onnx's ReferenceEvaluator fails there.

Its GatherElements supports at most 64 rows (`numpy.choose`), its Pad no negative pads, its LpNormalization adds signed
numbers for p = 1, and it has no Scatter.  Sources: the texts of the operators in onnx.defs, and ONNX Runtime 1.32's
kernels for cases that these leave open (pads of both signs, norms of 0).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from surgeon.runtime.kernels.erf import Array


def gather_elements(data: Array, indices: Array, *, axis: int = 0) -> Array:
    """GatherElements: for each index, the element of `data` at that index on `axis`, at its own index on other axes.

    indices: has the rank of `data`, and is not longer on axes other than `axis`.  Negative indices count from the end.
    Raises ValueError for longer axes, and IndexError for an index beyond the axis.
    """
    axis %= data.ndim
    if any(size > data.shape[at] for at, size in enumerate(indices.shape) if at != axis):
        raise ValueError(f"indices of shape {list(indices.shape)} are larger than data of shape {list(data.shape)}")
    cut = tuple(slice(None if at == axis else size) for at, size in enumerate(indices.shape))
    return np.take_along_axis(data[cut], indices.astype(np.int64), axis)


def scatter(data: Array, indices: Array, updates: Array, *, axis: int = 0) -> Array:
    """Scatter, the old name of ScatterElements without a reduction; among equal indices, the last wins."""
    made = data.copy()
    places = list(np.indices(indices.shape))
    places[axis % data.ndim] = indices.astype(np.int64)
    made[tuple(places)] = updates
    return made


def pad(
    data: Array,
    pads: Any = None,
    constant: Any = None,
    axes: Any = None,
    *,
    mode: str = "constant",
    value: float = 0.0,
    **old: Any,
) -> Array:
    """Pad.  Negative pads cut before others are added.  Before opset 11, `pads` and `value` are attributes.

    Raises ValueError for pads that do not match the axes.
    """
    amounts = [int(one) for one in (old["pads"] if pads is None else pads)]
    places = list(range(data.ndim)) if axes is None else [int(axis) % data.ndim for axis in axes]
    if len(amounts) != 2 * len(places):
        raise ValueError(f"{len(amounts)} pads do not match {len(places)} axes")
    around = [(0, 0)] * data.ndim
    for axis, head, tail in zip(places, amounts[: len(places)], amounts[len(places) :], strict=True):
        around[axis] = head, tail
    cut = tuple(
        slice(max(0, -head), size + min(0, tail)) for (head, tail), size in zip(around, data.shape, strict=True)
    )
    more = [(max(0, head), max(0, tail)) for head, tail in around]
    if mode != "constant":
        found: Array = np.pad(data[cut], more, mode=mode)  # type: ignore[call-overload]
        return found
    filled = value if constant is None else np.asarray(constant).reshape(-1)[0]
    return np.pad(data[cut], more, constant_values=np.asarray(filled).astype(data.dtype))


def lp_normalization(x: Array, *, axis: int = -1, p: int = 2) -> Array:
    """LpNormalization of order 1 or 2 in x's dtype; zeros for a norm of 0."""
    norm = (np.abs(x) ** p).sum(axis=axis, keepdims=True) ** (1.0 / p)
    return np.divide(x, norm, out=np.zeros_like(x), where=norm != 0)


MOVING: dict[tuple[str, str], Callable[..., Any]] = {
    ("", "GatherElements"): gather_elements,
    ("", "LpNormalization"): lp_normalization,
    ("", "Pad"): pad,
    ("", "Scatter"): scatter,
}
"""Formulas by domain and name of the operator."""
