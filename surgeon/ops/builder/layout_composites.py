"""Composite helpers that only move or slice data: shapes, attention heads, parts of a tensor.

Each covers all spellings of exporters: a Slice with or without steps, a Split by count or by sizes, a Reshape whose
target copies sizes.
"""

from itertools import groupby
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from surgeon.errors import require
from surgeon.ops.builder.composites import word

SPLIT_COUNTS = 18  # the first opset with num_outputs of Split


@word
def reshaped(g: Any, x: gs.Tensor) -> Any:
    """x in any shape, only for patterns: only the shape of the result matters, not the meaning of a 0 in the target."""
    shape = g.any_tensor()
    return g.any_of(g.reshape(x, shape), g.reshape(x, shape, allowzero=1))


@word
def size_of(g: Any, x: gs.Tensor, axis: int) -> Any:
    """One size of x, as a tensor with one element; a replacement writes a fixed size as a number."""
    if g.helper_opset() is not None and x.shape is not None and isinstance(x.shape[axis], int):
        return np.array([x.shape[axis]])
    return g.slice(g.shape(x), [axis], [axis + 1], [0])


@word
def spread(g: Any, x: gs.Tensor, sizes: Any) -> Any:
    """x repeated along axes: for each a number, or a tensor with one element; 1 leaves an axis unchanged."""
    if g.helper_opset() is None:
        return g.expand(x, g.any_tensor())
    runs = groupby(sizes, lambda size: isinstance(size, int))
    pieces = [part for is_fixed, run in runs for part in ([np.array([*run])] if is_fixed else run)]
    are_fixed = all(isinstance(part, np.ndarray) for part in pieces)
    return g.expand(x, np.concatenate(pieces) if are_fixed else g.concat(*pieces, axis=0))


@word
def heads_first(g: Any, x: gs.Tensor) -> Any:
    """[batch, heads, rows, columns] of [batch, rows, heads, columns], and back."""
    return g.transpose(x, perm=[0, 2, 1, 3])


@word
def joined_heads(g: Any, x: gs.Tensor, width: int | None = None) -> Any:
    """[batch, rows, width] of [batch, heads, rows, columns]: the heads are adjacent in the last axis.

    width: heads · columns, for a replacement in which the shape of x is unknown.
    """
    rows = heads_first(g, x)
    if width is None and g.helper_opset() is not None and x.shape is not None:
        width = x.shape[1] * x.shape[3]
    return reshaped(g, rows) if width is None else g.reshape(rows, [0, 0, width])


@word
def split_heads(g: Any, x: gs.Tensor, heads: int | None = None, columns: int | None = None) -> Any:
    """[batch, heads, rows, columns] of adjacent heads; a replacement has to give the numbers."""
    return heads_first(g, reshaped(g, x) if heads is None else g.reshape(x, [0, 0, heads, columns]))


def are_copies(made: gs.Tensor, copies: gs.Tensor, x: gs.Tensor) -> None:
    """Reject heads that are not those of x with each repeated several times, the copies adjacent."""
    _require_known(made, copies, x)
    require(x.rank == 4 and copies.rank == 5, "the repeated tensor must have the shape [batch, heads, rows, columns]")
    batch, heads, *rest = x.shape
    count = copies.shape[2]
    is_spread = copies.shape == (batch, heads, count, *rest) and made.shape == (batch, heads * count, *rest)
    require(is_spread, "the copies of each head must be adjacent")


@word
def repeated_heads(g: Any, x: gs.Tensor, heads: int = 0, copies: int = 0, columns: int = 0) -> Any:
    """[batch, heads · copies, rows, columns]: each head several times; a replacement has to give the numbers."""
    if copies:
        each = g.expand(g.unsqueeze(x, [2]), np.array([1, 1, copies, 1, 1], np.int64))
        return g.reshape(each, [0, heads * copies, -1, columns])
    x = g.named(x)
    one = g.unsqueeze(x, [2])
    each = g.named(g.any_of(g.expand(one, g.any_tensor()), g.tile(one, g.any_tensor())))
    return g.such_that(reshaped(g, each), are_copies, each, x)


def is_part(part: gs.Tensor, x: gs.Tensor, count: int, axis: int) -> None:
    """Reject a tensor that is not one of `count` equal parts of x along an axis."""
    _require_known(part, x)
    place = axis % len(x.shape)
    wanted = [size * count if at == place else size for at, size in enumerate(part.shape)]
    require(wanted == list(x.shape), f"the slice must be one of {count} equal parts")


def starts_part(start: gs.Tensor, x: gs.Tensor, part: int, count: int, axis: int) -> None:
    """Reject a Slice that does not begin at one of the equal parts of x."""
    fits = _place(start, x, axis) * count == x.shape[axis] * part
    require(fits, f"the slice must begin at part {part + 1} of {count}")


def is_even(sizes: gs.Tensor, count: int) -> None:
    """Reject a Split into parts of different sizes, even if not all of them are used."""
    require(sizes.elements is not None and len(set(sizes.elements)) == 1, f"a Split must have {count} equal parts")


def starts_behind(start: gs.Tensor, x: gs.Tensor, axis: int, *before: gs.Tensor) -> None:
    """Reject a Slice that does not begin at the end of the parts before it."""
    _require_known(x, *before)
    ends = sum(part.shape[axis] for part in before)
    require(_place(start, x, axis) == ends, "each slice must begin at the end of the one before it")


def are_all(last: gs.Tensor, x: gs.Tensor, axis: int, *before: gs.Tensor) -> None:
    """Reject parts that do not cover all of x."""
    _require_known(x, *before, last)
    width = sum(part.shape[axis] for part in (*before, last))
    require(width == x.shape[axis], "the slices must cover the whole tensor")


def drops_axis(item: gs.Tensor, part: gs.Tensor, axis: int) -> None:
    """Reject a Reshape that does more than remove an axis of size 1."""
    _require_known(item, part)
    place = axis % len(part.shape)
    is_dropped = part.shape[place] == 1 and item.shape == (*part.shape[:place], *part.shape[place + 1 :])
    require(is_dropped, "a Reshape may only remove an axis of size 1")


def _require_known(*tensors: gs.Tensor) -> None:
    require(all(x.shape is not None for x in tensors), "the shapes of the sliced tensor and its slices must be known")


def _place(start: gs.Tensor, x: gs.Tensor, axis: int) -> Any:
    """The index at which a Slice of x begins, from the front."""
    at = start.elements
    require(at is not None and len(at) == 1, "the start of the slice must be known")
    return at[0] + x.shape[axis] if isinstance(at[0], int) and at[0] < 0 else at[0]


def _cut_off(g: Any, x: Any, start: Any, axis: int) -> list[Any]:
    """Slices of x along an axis, with and without steps."""
    return [g.slice(x, start, g.any_tensor(), [axis], steps) for steps in (None, [1])]


def _splits(g: Any, x: Any, count: int, axis: int, sizes: Any) -> list[tuple[Any, ...]]:
    """Ways to split x into `count` parts along an axis: by their number or by their sizes."""
    counted = g.split(x, axis=axis, num_outputs=count, outputs=count)
    sized, plain = g.split(x, sizes, axis=axis, outputs=count), g.split(x, axis=axis, outputs=count)
    return list(zip(counted, sized, plain, strict=True))


@word
def cut(g: Any, x: gs.Tensor, count: int, axis: int) -> tuple[Any, ...]:
    """x in `count` equal parts along an axis, as a tuple: one Split, or a Slice for each part, with or without steps.

    A pattern that uses only some parts matches only those.
    """
    opset = g.helper_opset()
    if opset is not None:
        numbers = {"num_outputs": count} if opset >= SPLIT_COUNTS else {}
        return tuple(g.split(x, axis=axis, outputs=count, **numbers))
    x, found = g.named(x), []
    for place, own in enumerate(_splits(g, x, count, axis=axis, sizes=g.such_that(g.any_tensor(), is_even, count))):
        start = g.such_that(g.any_tensor(), starts_part, x, place, count, axis)
        found.append(g.such_that(g.any_of(*own, *_cut_off(g, x, start, axis)), is_part, x, count, axis))
    return tuple(found)


@word
def parts(g: Any, x: gs.Tensor, count: int, axis: int) -> tuple[Any, ...]:
    """x in `count` parts of any sizes along an axis, only for patterns: one Split, or a Slice for each part.

    They are adjacent and cover all of x.  A pattern has to use each.
    """
    x = g.named(x)
    found: list[Any] = []
    for place, own in enumerate(_splits(g, x, count, axis=axis, sizes=g.any_tensor())):
        start = g.such_that(g.any_tensor(), starts_behind, x, axis, *found) if place else [0]
        part = g.any_of(*_cut_off(g, x, start, axis), *own)
        found.append(g.named(part) if place < count - 1 else g.such_that(part, are_all, x, axis, *found))
    return tuple(found)


@word
def unstacked(g: Any, x: gs.Tensor, count: int, axis: int) -> tuple[Any, ...]:
    """The slice at each of `count` indices along an axis, without that axis: by Slice, or by Gather."""
    found = []
    for place, part in enumerate(cut(g, x, count, axis)):
        dropped = g.squeeze(part, [axis])
        if g.helper_opset() is None:
            others = g.such_that(reshaped(g, part), drops_axis, part, axis), g.gather(x, place, axis=axis)
            dropped = g.any_of(dropped, *others)
        found.append(dropped)
    return tuple(found)
