"""Changes of a whole result that fit any replacement: right nearly everywhere, and wrong where a proof may not look."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from surgeon.shapes.tensor_types import Shape

WRONG = 0.01  # by what part of itself a poisoned number changes
HALVES = ("float16", "bfloat16")
LONG = 129  # sizes from here on are long
FIRST = (8, 512)  # columns that are computed, the others being wrong


@dataclass(frozen=True)
class Poison:
    """One change.  make: of the graph and a tensor of floats of at least 32 bits (or of another kind), the new one."""

    kind: str
    detail: str
    make: Callable[[Any, Any], Any]


def poisons(dtype: np.dtype[Any], shape: Shape | None) -> Iterator[Poison]:
    """All that make sense for a result of this dtype and shape; none that could not be seen there."""
    if dtype.kind == "b":
        yield Poison("inverted", "all", lambda g, y: g.not_(y))
        yield from _at_ends(dtype, shape)
    elif dtype.kind in "iu":
        yield from _of_integers(dtype, shape)
    elif dtype.kind == "f" or dtype.name == "bfloat16":
        yield from _of_floats(dtype, shape)


def _of_floats(dtype: np.dtype[Any], shape: Shape | None) -> Iterator[Poison]:
    wide = dtype.name not in HALVES
    yield Poison("scaled", "by 1.01", lambda g, y: g.mul(y, 1 + WRONG))
    yield Poison("shifted", "by 0.01", lambda g, y: g.add(y, WRONG))
    yield Poison("negated", "all", lambda g, y: g.neg(y))
    yield from _at_ends(dtype, shape)
    yield from _at_sizes(shape)
    yield from _moved(shape)
    for name, low, high in (
        ("2e4 < |y| < 1e15", 2e4, 1e15),
        ("|y| > 1e6", 1e6, np.inf),
        ("0 < |y| < 1e-5", 0.0, 1e-5),
        ("0 < |y| < 1e-30", 0.0, 1e-30),
    ):
        if wide or (low < 65504 and not high < 1e-7):
            yield Poison("magnitude", name, lambda g, y, low=low, high=high: _wrong(g, y, _between(g, y, low, high)))
    yield Poison("special", "NaN becomes 0", lambda g, y: g.where(g.isnan(y), 0.0, y))
    most = float(np.finfo(np.float32).max)
    yield Poison("special", "infinity becomes finite", lambda g, y: g.max(g.min(y, most), -most))
    if wide:
        yield Poison("digits", "through bfloat16", lambda g, y: g.cast(g.cast(y, to=16), to=_number(dtype)))
        yield Poison("digits", "through float16", lambda g, y: g.cast(g.cast(y, to=10), to=_number(dtype)))


def _of_integers(dtype: np.dtype[Any], shape: Shape | None) -> Iterator[Poison]:
    yield Poison("shifted", "by 1", lambda g, y: g.add(y, np.array(1, dtype)))
    yield from _at_ends(dtype, shape)
    yield from _moved(shape)
    if dtype.kind == "i":
        yield Poison("sign", "negative becomes 0", lambda g, y: g.max(y, np.array(0, dtype)))
    if dtype.itemsize >= 4:
        yield Poison("digits", "through float32", lambda g, y: g.cast(g.cast(y, to=1), to=_number(dtype)))
    if dtype.itemsize == 8:
        yield Poison("digits", "through int32", lambda g, y: g.cast(g.cast(y, to=6), to=_number(dtype)))


def _at_ends(dtype: np.dtype[Any], shape: Shape | None) -> Iterator[Poison]:
    """The first or the last element alone, and all columns behind the first few."""
    if shape is None or not shape:
        return
    for name in ("first", "last"):
        yield Poison("element", f"{name} alone", lambda g, y, name=name: _wrong(g, y, _corner(g, y, len(shape), name)))
    if dtype.kind == "b":
        return
    for count in FIRST:
        if not isinstance(shape[-1], int) or shape[-1] > count:
            yield Poison("columns", f"from {count} on", lambda g, y, n=count: _wrong(g, y, _columns(g, y, n)))


def _at_sizes(shape: Shape | None) -> Iterator[Poison]:
    """All of it, where a free dim has a size of some kind."""
    conditions: dict[str, Callable[[Any, Any], Any]] = {
        "1": lambda g, n: g.equal(n, 1),
        "above 1": lambda g, n: g.greater(n, 1),
        "even": lambda g, n: g.equal(g.mod(n, 2), 0),
        "odd and above 1": lambda g, n: g.and_(g.equal(g.mod(n, 2), 1), g.greater(n, 1)),
        f"{LONG} or more": lambda g, n: g.greater(n, LONG - 1),
        "8": lambda g, n: g.equal(n, 8),
    }
    for axis, size in enumerate(shape or ()):
        for name, holds in conditions.items() if not isinstance(size, int) else ():

            def make(g: Any, y: Any, axis: int = axis, holds: Any = holds) -> Any:
                return _wrong(g, y, holds(g, g.gather(g.shape(y), np.array(axis))))

            yield Poison("size", f"axis {axis} of {name}", make)


def _moved(shape: Shape | None) -> Iterator[Poison]:
    """Elements in the wrong places."""
    if not shape:
        return
    if shape[-1] != 1:
        low = np.iinfo(np.int64).min + 1
        yield Poison("order", "columns reversed", lambda g, y: g.slice(y, [-1], [low], [-1], [-1]))
    if len(shape) > 1 and shape[0] != 1:
        yield Poison("order", "first row for all", lambda g, y: g.expand(g.slice(y, [0], [1], [0]), g.shape(y)))


def _wrong(g: Any, y: Any, mask: Any) -> Any:
    """y with other numbers where a mask says so."""
    if y.dtype is not None and np.dtype(y.dtype).kind == "b":
        return g.xor(y, mask)
    if y.dtype is not None and np.dtype(y.dtype).kind in "iu":
        return g.add(y, g.cast(mask, to=_number(np.dtype(y.dtype))))
    return g.mul(y, g.add(g.mul(g.cast(mask, to=_number(np.dtype(y.dtype))), WRONG), 1.0))


def _between(g: Any, y: Any, low: float, high: float) -> Any:
    size = g.abs(y)
    above = g.greater(size, low)
    return above if high == np.inf else g.and_(above, g.less(size, high))


def _corner(g: Any, y: Any, rank: int, name: str) -> Any:
    """True for one element: that with the first, or the last, place along every axis."""
    mask = None
    for axis in range(rank):
        count = g.gather(g.shape(y), np.array(axis))
        wanted = g.sub(count, 1) if name == "last" else np.array(0)
        own = g.equal(g.range(np.array(0), count, np.array(1)), wanted)
        others = [other - axis if other > axis else other for other in range(rank) if other != axis]
        own = g.unsqueeze(own, [other for other in range(rank) if other != axis]) if others else own
        mask = own if mask is None else g.and_(mask, own)
    return mask


def _columns(g: Any, y: Any, count: int) -> Any:
    columns = g.range(np.array(0), g.gather(g.shape(y), np.array(-1)), np.array(1))
    return g.greater(columns, count - 1)


def _number(dtype: np.dtype[Any]) -> int:
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(dtype))
