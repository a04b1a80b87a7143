"""Sums of products of integers as floats. float32 represents every integer up to 2²⁴, so smaller sums are exact.

Longer sums are divided into parts, which are added as int32, like the products of integers themselves.
"""

from collections.abc import Callable
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require
from ._scale_zero_point import dtype_range

MAX_EXACT_INTEGER = 2**24
MAX_PARTS = 64
PartialSums = tuple[list[Tensor], bool]


def max_magnitude(x: Tensor, zero: Tensor | None) -> int:
    """Return an upper bound of |x − zero|."""
    least, largest = dtype_range(x)
    if zero is None:
        return max(-least, largest)
    if zero.is_constant and zero.values.size:
        return max(int(zero.values.max()) - least, largest - int(zero.values.min()))
    return largest - least


def split_points(bounds: np.ndarray[Any, Any], factor: int, more: int = 0) -> list[int]:
    """Return the places at which a sum is divided so that each part is exact, including both ends.

    bounds: for each element of the sum (rows) and each column, the maximum magnitude of the other factor.

    factor: the maximum magnitude of this factor. more: the maximum magnitude of another summand.
    """
    count = len(bounds)
    for parts in range(1, min(count, MAX_PARTS) + 1):
        step = ceil(count / parts)
        places = [*range(0, count, step), count]
        sums = [bounds[start:stop].sum(axis=0).max(initial=0) * factor for start, stop in pairwise(places)]
        if max(sums) + more <= MAX_EXACT_INTEGER:
            return places
    require(count == 0, "the sums are too long to be exact in float32")
    return [0, count]


def partial_sums(g: Graph, places: list[int], part: Callable[[int, int], Tensor]) -> PartialSums:
    """Return the parts of a sum, and whether there is only one.  One part is float32, several are added as int32."""
    return [part(start, stop) for start, stop in pairwise(places)], len(places) <= 2


def as_int32(g: Graph, parts: PartialSums) -> Tensor:
    """Return a sum in parts as int32."""
    found, *others = (g.cast(one, to="int32") for one in parts[0])
    for other in others:
        found = g.add(found, other)
    return found


def as_float(g: Graph, parts: PartialSums) -> Tensor:
    """Return a sum in parts as float32."""
    return parts[0][0] if parts[1] else g.cast(as_int32(g, parts), to="float32")
