"""What is added to the scores of an attention, in the shapes and dtypes that attention ops take."""

from collections.abc import Callable
from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require
from ._hidden import DROWNS, number_of
from ._layouts import size_of
from ._scores import Scores


def bias_of(g: Graph, m: Scores, dtype: Any, number: Any = None) -> Any:
    """What is added to the scores, if anything: masks as they are, and a low number where a condition hides scores.

    The condition hides what was added before it too.  number: the low one, where it is not as `number_of` says.
    """
    parts = [mask if mask.dtype in (None, dtype) else g.cast(mask, to=dtype) for mask in m.masks]
    if m.low is None:
        made = None if not parts else parts[0] if len(parts) == 1 else g.add(*parts)
        if m.floor is None:
            return made
        require(m.floor < DROWNS, f"beside {m.floor:g}, to which masked scores are raised, scores still count")
        return g.max(made, np.array(m.floor, dtype))
    condition, is_kept = m.condition
    low = number_of(m, dtype)  # which may refuse
    put = low if number is None else number
    seen = np.zeros((), dtype) if m.mask is None else parts.pop(0)
    made = g.where(condition, seen, put) if is_kept else g.where(condition, put, seen)
    return g.add(made, *parts) if parts else made


def is_as_large(size: Any, whole: Any) -> bool:
    """Whether a size is another wherever the model runs."""
    return bool(size == whole or (not isinstance(size, int) and size.is_cut_of(whole)))


def require_fits(m: Scores) -> None:
    """A mask must not have more batches, heads or rows than the queries, which would be repeated for them."""
    wanted = m.q.shape
    for mask in m.given:
        require(mask.shape is not None and wanted is not None, "the shape of the mask or of the queries is unknown")
        require(mask.rank <= len(wanted), "the mask has more axes than the scores")
        sizes = (*[1] * (len(wanted) - mask.rank), *mask.shape)
        told = ("batches", "heads", "rows") if len(sizes) == 4 else ("batches", "rows")
        for name, own, size in zip(told, sizes, wanted, strict=False):
            fits = own == 1 or is_as_large(own, size)
            require(fits, f"the mask has {own} {name} where the queries have {size}")


def are_sides(own: Any, wanted: Any) -> bool:
    """Whether a mask has a row for every query and a column for every key, wherever the model runs."""
    return all(map(is_as_large, own, wanted))


def fitted(g: Graph, m: Scores, bias: Any, keys: Any, count: Callable[[], Tensor]) -> Any:
    """A bias with four axes, a row for every query and a number for every key, as attention ops want it; or None.

    Queries of three axes have one head and no axis for it, and so have the masks.  keys, count: how many keys there
    are, as a size, and as what computes it.
    """
    if bias is None:
        return None
    require_fits(m)
    rank, sides = max(mask.rank for mask in m.given), (m.q.shape[-2], keys)
    shaped = bias if rank == 4 else g.unsqueeze(bias, [1] if rank == m.q.rank else list(range(4 - rank)))
    own = [tuple(mask.shape[-2:]) if mask.rank > 1 else () for mask in m.given]
    is_whole = [len(side) == 2 and are_sides(side, sides) for side in own]
    is_row = [side == (1, sides[1]) for side in own]
    if m.q.rank == 4 and any(is_whole) and all(map(any, zip(is_whole, is_row, strict=True))):
        return shaped
    return spread_to(g, shaped, size_of(g, m.q, m.q.rank - 2), count())


def spread_to(g: Graph, bias: Tensor, rows: Tensor, keys: Tensor) -> Tensor:
    """A bias with four axes, repeated for so many rows and keys where it has one for all of them."""
    one = np.array([1], np.int64)
    return g.expand(bias, g.concat(one, one, rows, keys, axis=0))
