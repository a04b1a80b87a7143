"""Gathers that pick every element in its order, as a mask is looked up for each batch and key."""

from surgeon import Graph, Tensor, rule, searches


@rule(search=searches.gathers_in_order, target="any")
def gather_by_range(g: Graph, x: Tensor, places: list[int | None], cut: list[int], lengths: list[Tensor]) -> Tensor:
    """Put new axes in the place of a gather whose indices count up along each axis.

    What: GatherND, and Gather of a flattened tensor, where the index of each axis is a range from 0 on: an Unsqueeze,
    behind a Slice where a range is shorter than the axis.
    Numerics: none.  Where an index is out of bounds, and the gather would stop the model, the Slice gives less.
    """
    if cut:
        ends = [length if length.rank == 1 else g.reshape(length, [1]) for length in lengths]
        x = g.slice(x, [0] * len(cut), g.concat(*ends, axis=0) if len(ends) > 1 else ends[0], cut)
    added = [place for place, axis in enumerate(places) if axis is None]
    return g.unsqueeze(x, added) if added else x
