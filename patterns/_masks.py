"""What is added to the scores of an attention, in the shapes and dtypes that attention ops take."""

from typing import Any

import numpy as np

from surgeon import Graph, Match, Tensor, require
from ._hidden import condition_of, masks_of, number_of
from ._layouts import size_of


def bias_of(g: Graph, match: Match, dtype: Any, number: Any = None) -> Any:
    """What is added to the scores, if anything: masks as they are, and a low number where a condition hides scores.

    The condition hides what was added before it too.  number: the low one, where it is not as `number_of` says.
    """
    parts = [mask if mask.dtype in (None, dtype) else g.cast(mask, to=dtype) for mask in masks_of(match)]
    if "low" not in match.bound:
        return None if not parts else parts[0] if len(parts) == 1 else g.add(*parts)
    condition, is_kept = condition_of(match)
    low = number_of(match, dtype)
    put = low if number is None else number
    seen = parts.pop(0) if "mask" in match.bound else np.zeros((), dtype)
    made = g.where(condition, seen, put) if is_kept else g.where(condition, put, seen)
    return g.add(made, *parts) if parts else made


def given(match: Match) -> list[Tensor]:
    """The tensors of the model that together have the shape of what is added to the scores."""
    return [match[name] for name in ("mask", "second", "kept", "hidden") if name in match.bound]


def require_fits(mask: Tensor, q: Tensor) -> None:
    """A mask must not have more batches, heads or rows than the queries, which would be repeated for them."""
    require(mask.shape is not None and q.shape is not None, "the shape of the mask or of the queries is unknown")
    require(mask.rank <= q.rank, "the mask has more axes than the scores")
    sizes = (*[1] * (q.rank - mask.rank), *mask.shape)
    told = ("batches", "heads", "rows") if len(sizes) == 4 else ("batches", "rows")
    for name, own, wanted in zip(told, sizes, q.shape, strict=False):
        require(own in (1, wanted), f"the mask has {own} {name} where the queries have {wanted}")


def fitted(g: Graph, bias: Tensor, masks: list[Tensor], q: Tensor, kt: Tensor) -> Tensor:
    """A bias with four axes, a row for every query and a number for every key, as attention ops want it.

    Queries of three axes have one head and no axis for it, and so have the masks.
    """
    for mask in masks:
        require_fits(mask, q)
    if q.rank == 4:
        return whole(g, bias, masks, q, kt)
    rank = max(mask.rank for mask in masks)
    return spread(g, g.unsqueeze(bias, [1] if rank == 3 else list(range(4 - rank))), q, kt)


def whole(g: Graph, bias: Tensor, masks: list[Tensor], q: Tensor, kt: Tensor) -> Tensor:
    """A bias for queries of four axes, repeated where it is not known to have all rows and keys."""
    missing = 4 - max(mask.rank for mask in masks)
    shaped = bias if not missing else g.unsqueeze(bias, list(range(missing)))
    wanted = (q.shape[2], kt.shape[3]) if q.shape and kt.shape else ()
    sides = [tuple(mask.shape[-2:]) if mask.rank > 1 else () for mask in masks]
    if (
        wanted
        and all(side == wanted or (side[1:] == wanted[1:] and side[0] == 1) for side in sides)
        and wanted in sides
    ):
        return shaped
    return spread(g, shaped, q, kt)


def spread(g: Graph, bias: Tensor, q: Tensor, kt: Tensor) -> Tensor:
    """A bias with four axes, repeated for the rows of q and the columns of kᵀ where it has one for all of them."""
    return spread_to(g, bias, size_of(g, q, q.rank - 2), size_of(g, kt, kt.rank - 1))


def spread_to(g: Graph, bias: Tensor, rows: Tensor, keys: Tensor) -> Tensor:
    """A bias with four axes, repeated for so many rows and keys where it has one for all of them."""
    one = np.array([1], np.int64)
    return g.expand(bias, g.concat(one, one, rows, keys, axis=0))
