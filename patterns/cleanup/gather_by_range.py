"""Gathers that select every element in order, for example to read a mask for each batch and key."""

from surgeon import Graph, Tensor, rule, searches


@rule(search=searches.gathers_in_order, target="any")
def gather_by_range(g: Graph, x: Tensor, places: list[int | None], cut: list[int], lengths: list[Tensor]) -> Tensor:
    """Replace a Gather whose indices count up along each axis by new axes.

    What: GatherND, and Gather of a flattened tensor, with indices that are a range from 0 along each axis.  The rule
    writes an Unsqueeze, after a Slice if a range is shorter than the axis.
    Numerics: none.  For an index out of bounds, the Gather would stop the model, but the Slice returns fewer elements.
    """
    if cut:
        ends = [length if length.rank == 1 else g.reshape(length, [1]) for length in lengths]
        x = g.slice(x, [0] * len(cut), g.concat(*ends, axis=0) if len(ends) > 1 else ends[0], cut)
    added = [place for place, axis in enumerate(places) if axis is None]
    return g.unsqueeze(x, added) if added else x
