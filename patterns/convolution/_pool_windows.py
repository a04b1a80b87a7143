"""The windows of a pooling as slices, one for each of their elements."""

from itertools import product
from math import prod
from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require
from ..vision._interpolation import string_attribute

MAX_WINDOW_SIZE = 64
END = np.iinfo(np.int64).max
NOT_A_NUMBER = {"non_finite": "each runtime decides whether a maximum propagates NaN"}


class PoolWindows(Captures):
    """The input of a pooling, the size of its windows, and its attributes."""

    x: Tensor
    kernel: list[int]
    attributes: dict[str, Any]

    def sides(self) -> tuple[list[int], list[int], list[int]]:
        """Strides, dilations and pads."""
        axes = len(self.kernel)
        require(not self.attributes.get("storage_order"), "it stores columns first (storage_order)")
        require(prod(self.kernel) <= MAX_WINDOW_SIZE, f"a window has more than {MAX_WINDOW_SIZE} elements")
        ones: list[int] = [1] * axes
        strides, dilations = (list(self.attributes.get(name) or ones) for name in ("strides", "dilations"))
        pads = self.pads(strides, dilations)
        if self.attributes.get("ceil_mode") and max(strides) > 1:
            require(self.x.rank is not None, "the rank of x is unknown")
            for at, size in enumerate(self.x.shape[2:]):
                room: Any = size + pads[at] + pads[at + axes] - (self.kernel[at] - 1) * dilations[at] - 1
                require(
                    isinstance(room, int) and not room % strides[at], "the last windows reach beyond the padded input"
                )
        return strides, dilations, pads

    def pads(self, strides: list[int], dilations: list[int]) -> list[int]:
        """The pads of the attribute, or those that `auto_pad` computes from the sizes."""
        found = list(self.attributes.get("pads") or [0] * (2 * len(self.kernel)))
        how = string_attribute(self.attributes, "auto_pad", "NOTSET")
        if how in ("NOTSET", "VALID"):
            return found if how == "NOTSET" else [0] * len(found)
        require(self.x.rank is not None, "the rank of x is unknown")
        require(set(dilations) == {1}, "with dilations, each runtime computes auto_pad differently")
        for at, size in enumerate(self.x.shape[2:]):
            require(isinstance(size, int), "the pads depend on a dynamic size")
            reach = (-(-size // strides[at]) - 1) * strides[at] + self.kernel[at]
            less, more = divmod(max(reach - size, 0), 2)
            ends = (less, less + more) if how == "SAME_UPPER" else (less + more, less)
            found[at], found[at + len(self.kernel)] = ends
        return found


def window_slices(g: Graph, x: Tensor, m: PoolWindows, beside: Any) -> list[Tensor]:
    """Return a slice of x for each element of the windows.  Elements of the padding equal one number."""
    strides, dilations, pads = m.sides()
    axes = len(m.kernel)
    if any(pads):
        x = g.pad(x, np.array([0, 0, *pads[:axes], 0, 0, *pads[axes:]]), beside)
    found = []
    for tap in product(*map(range, m.kernel)):
        starts = [place * step for place, step in zip(tap, dilations, strict=True)]
        left = [(size - 1) * step for size, step in zip(m.kernel, dilations, strict=True)]
        ends = [start - most or END for start, most in zip(starts, left, strict=True)]
        found.append(g.slice(x, starts, ends, list(range(2, 2 + axes)), strides))
    return found
