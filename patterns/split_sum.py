"""What is added to scores whose batch is split for it, as windows of an image have a mask each."""

import numpy as np

from surgeon import Captures, Graph, Tensor, dims, require, rule
from ._layouts import ABSENT, reshaped, size_of


class SplitSum(Captures):
    """Scores x, these with their batch split in two, what is added to them, perhaps twice, and the batch as it was."""

    x: Tensor = dims("batch heads rows keys")
    split: Tensor = dims("images windows heads rows keys")
    mask: Tensor = dims("1 windows _ _ _")
    second: Tensor = dims("1 windows _ _ _", default=ABSENT)
    y: Tensor = dims("_ heads rows keys")
    windows: int


def in_windows(g: Graph, m: SplitSum) -> Tensor:
    """softmax(reshape(reshape(x) + mask)), as Swin has it."""
    m.split = reshaped(g, m.x)
    m.y = reshaped(g, g.any_of(g.add(m.split, m.mask, m.second), g.add(m.split, m.mask)))
    return g.softmax(m.y, axis=-1)


@rule(patterns=[in_windows], target="any")
def split_sum(g: Graph, m: SplitSum) -> Tensor:
    """Add a mask of each window to scores as they are, instead of splitting their batch into images and windows.

    What: softmax(reshape(reshape(x) + mask)), where the first axis is split in two and joined again.  The mask is
    repeated for each image instead, so that an attention is found.
    Numerics: rounding only.
    """
    mask = m.mask if m.second is None else g.add(m.mask, m.second)
    sizes = [max(pair, key=lambda size: size != 1) for pair in zip(*(one.shape[2:] for one in given(m)), strict=True)]
    require(all(isinstance(size, int) for size in sizes), "the sizes of the mask are not fixed")
    images = g.div(size_of(g, m.x, 0), np.array([m.windows], np.int64))
    ones = np.ones(4, np.int64)
    return g.softmax(g.add(m.x, g.reshape(g.expand(mask, g.concat(images, ones, axis=0)), [-1, *sizes])), axis=-1)


def given(m: SplitSum) -> list[Tensor]:
    """What is added."""
    return [one for one in (m.mask, m.second) if one is not None]
