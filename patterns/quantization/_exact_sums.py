"""Sums of products of integers as floats: float32 holds every integer up to 2²⁴, so below that they are exact.

Longer sums are parted, and the parts added as int32, as the products of integers themselves are.
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
    """What |x − zero| cannot be more than."""
    least, largest = dtype_range(x)
    if zero is None:
        return max(-least, largest)
    if zero.is_constant and zero.values.size:
        return max(int(zero.values.max()) - least, largest - int(zero.values.min()))
    return largest - least


def split_points(bounds: np.ndarray[Any, Any], factor: int, more: int = 0) -> list[int]:
    """Where a sum is to be cut for each part to stay whole: the places of the cuts, both ends included.

    bounds: for each element of the sum (rows) and each column what the other factor adds to its magnitude at most.
    factor: the most that this one is.  more: what is added to it besides.
    """
    count = len(bounds)
    for parts in range(1, min(count, MAX_PARTS) + 1):
        step = ceil(count / parts)
        places = [*range(0, count, step), count]
        sums = [bounds[start:stop].sum(axis=0).max(initial=0) * factor for start, stop in pairwise(places)]
        if max(sums) + more <= MAX_EXACT_INTEGER:
            return places
    require(count == 0, "the sums are too long to be whole in float32")
    return [0, count]


def partial_sums(g: Graph, places: list[int], part: Callable[[int, int], Tensor]) -> PartialSums:
    """The parts of a sum, and whether it is one: a float32 then, else they are to be added as int32."""
    return [part(start, stop) for start, stop in pairwise(places)], len(places) <= 2


def as_int32(g: Graph, parts: PartialSums) -> Tensor:
    """A sum in parts as int32."""
    found, *others = (g.cast(one, to="int32") for one in parts[0])
    for other in others:
        found = g.add(found, other)
    return found


def as_float(g: Graph, parts: PartialSums) -> Tensor:
    """A sum in parts as float32."""
    return parts[0][0] if parts[1] else g.cast(as_int32(g, parts), to="float32")
