"""Images whose pixels are taken in four steps, as in Focus of YOLOv5."""

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule


class FourSlices(Captures):
    """Four slices of an image with step 2, of which each has a start and an end along both axes."""

    x: Tensor
    first: list[int]
    second: list[int]
    third: list[int]
    fourth: list[int]
    end: list[int]
    second_end: list[int]
    third_end: list[int]
    fourth_end: list[int]


def four_slices(g: Graph, m: FourSlices) -> Tensor:
    """Every second pixel along both axes, from each of the four corners of a block, along the channels."""
    corners = [(m.first, m.end), (m.second, m.second_end), (m.third, m.third_end), (m.fourth, m.fourth_end)]
    return g.concat(*(g.slice(m.x, start, end, [2, 3], [2, 2]) for start, end in corners), axis=1)


@rule(patterns=[four_slices], target="onnx")
def space_to_depth(g: Graph, m: FourSlices) -> Tensor:
    """Fuse four strided Slices of an image and their Concat into one SpaceToDepth node.

    What: all pixels of blocks of 2 · 2.  For an order of blocks other than row by row, such as that of YOLOv5, a Gather
    follows, which sorts the channels.
    Numerics: none.
    """
    require(m.x.rank == 4, "the input must have the axes batch, channel, row, column")
    channels, *sizes = m.x.shape[1:]
    ends = np.array([m.end, m.second_end, m.third_end, m.fourth_end])
    is_even = all(isinstance(size, int) and size % 2 == 0 for size in sizes)
    require(is_even, "the height and the width must be even and fixed")
    require(bool((ends >= sizes).all()), "the slices must go to the end of the image")
    places = [2 * row + column for row, column in (m.first, m.second, m.third, m.fourth)]
    require(sorted(places) == [0, 1, 2, 3], "the slices must start at the four pixels of a block")
    made = g.space_to_depth(m.x, blocksize=2)
    if places == sorted(places):
        return made
    require(isinstance(channels, int), "the number of channels is not fixed, so that they cannot be sorted")
    order = np.concatenate([np.arange(channels) + place * channels for place in places])
    return g.gather(made, order, axis=1)
