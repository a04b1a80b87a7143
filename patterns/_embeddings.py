"""What embeddings ask of their tables and ids, and how ops that take them want these."""

from typing import Any

import numpy as np

from surgeon import Constant, Graph, Match, Tensor, require

Table = tuple[Tensor, Tensor]


def has_vectors(
    one: Constant,
    gamma: Constant,
    beta: Constant,
    epsilon: float,
    two: Constant | None = None,
    three: Constant | None = None,
) -> None:
    """Tables of equally many columns, and vectors of as many numbers, all of one dtype."""
    for table in (one, two, three):
        if table is not None:
            require(table.rank == 2, "a table has other axes than rows and columns")
            require(table.shape[1] == one.shape[1], "the tables have different columns")
    for vector in (gamma, beta):
        require(vector.shape == one.shape[1:], "scale and bias must be vectors over the last axis")
        require(vector.dtype == one.dtype, "scale and bias must have the dtype of the tables")
    require(epsilon >= 0, "ONNX Runtime's kernel takes no negative epsilon")


def counted_table(match: Match, length: Any) -> Any:
    """The table of which a row stands for each place.  Refuses places that are not 0, 1, 2, ... up to a length."""
    if "count" in match.bound:
        require(match["count"].elements == [length], "it is not as many places as there are ids")
    if "fixed" in match.bound:
        fixed = match["fixed"].values
        require(fixed.ndim in (2, 3) and fixed.shape[:-2] in ((), (1,)), "the places differ from batch to batch")
        require(fixed.shape[-1] == match["one"].shape[1], "the tables have different columns")
        require("count" in match.bound or fixed.shape[-2] == length, "it is not as many places as there are ids")
        require("axis" not in match.bound or match["axis"][0] in (-2, fixed.ndim - 2), "another axis is cut")
        require("count" not in match.bound or fixed.shape[-2] > 1, "one place serves all ids")
        return fixed.reshape(fixed.shape[-2:])
    if "counted" in match.bound:
        counted = match["counted"].values
        require(counted.ndim in (1, 2), "the places have other axes than batch, row")
        require(match["axis"][0] in (-1, counted.ndim - 1), "another axis is cut")
        require(counted.size == counted.shape[-1] > 1, "one place serves all ids, or places differ from batch to batch")
        require(np.array_equal(counted.reshape(-1), np.arange(counted.size)), "the places do not count from 0")
    return match["two"]


def is_count(places: Tensor) -> bool:
    """Whether places are the fixed numbers 0, 1, 2, ... of one row."""
    return places.is_constant and np.array_equal(places.values.reshape(-1), np.arange(places.shape[-1]))


def parts(match: Match) -> tuple[list[Table], tuple[Any, Tensor | None]]:
    """The tables with an id for each word, that of the most rows first; then that of the places, with these.

    The places may be the same for all batches; None where they are 0, 1, 2, ...
    """
    found = [(match[name], match[f"{name}_ids"]) for name in ("one", "two", "three") if f"{name}_ids" in match.bound]
    require(all(ids.shape is not None for _, ids in found), "the shape of the ids is unknown")
    found.sort(key=lambda pair: pair[0].shape[0], reverse=True)
    if "two_ids" not in match.bound:
        size = found[0][1].shape
        require(all(len(size) == 2 and ids.shape == size for _, ids in found), "the ids have different shapes")
        return found, (counted_table(match, size[1]), None)
    for at in (1, len(found) - 1, 0):
        others, (table, places) = found[:at] + found[at + 1 :], found[at]
        size = others[0][1].shape
        fits = len(size) == 2 and places.shape in (size, (1, size[1]), size[1:])
        if fits and all(ids.shape == size for _, ids in others):
            return others, (table, None if is_count(places) else places)
    require(False, "the ids have different shapes")
    return found, found[0]


def as_ids(g: Graph, ids: Tensor) -> Any:
    """Ids as the op takes them: int32, of two axes."""
    whole = g.unsqueeze(ids, [0]) if ids.rank == 1 else ids
    return whole if ids.dtype == np.int32 else g.cast(whole, to=np.int32)
