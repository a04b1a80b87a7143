"""What is added to the scores of an attention, in the shapes and dtypes that attention ops take."""

from typing import Any

import numpy as np
from ml_dtypes import finfo

from patterns._layouts import size_of
from surgeon import Graph, Match, Tensor, require

LOWEST = -1e4  # what is added to the scores of keys that are not to be seen is below


def bias_of(g: Graph, match: Match, dtype: Any) -> Tensor | None:
    """What is added to the scores: masks as they are, or zero and a low number where a condition chose between them."""
    found: list[Tensor] = [match[name] for name in ("mask", "second") if name in match.bound]
    parts = [mask if mask.dtype in (None, dtype) else g.cast(mask, to=dtype) for mask in found]
    if "low" in match.bound:
        low = match["low"]
        require(low < LOWEST, f"{low} in the place of a score hides nothing")
        lowest = np.array(max(low, float(finfo(dtype).min)) if np.isfinite(low) else low, dtype)
        zero = np.array(0, dtype)
        is_kept = "kept" in match.bound
        parts.append(g.where(match["kept"], zero, lowest) if is_kept else g.where(match["hidden"], lowest, zero))
    return None if not parts else parts[0] if len(parts) == 1 else g.add(*parts)


def given(match: Match) -> list[Tensor]:
    """The tensors of the model that together have the shape of what is added to the scores."""
    return [match[name] for name in ("mask", "second", "kept", "hidden") if name in match.bound]


def require_fits(mask: Tensor, q: Tensor) -> None:
    """A mask must not have more batches or heads than the scores."""
    require(mask.rank is not None and mask.rank <= 4, "the number of the mask's axes is unknown")
    batch, heads = [*[1] * (4 - mask.rank), *mask.shape][:2]
    require(heads in (1, q.shape[1]), f"the mask has {heads} heads where the queries have {q.shape[1]}")
    sizes = [size for size in (batch, q.shape[0]) if isinstance(size, int)]
    require(len(sizes) < 2 or batch in (1, q.shape[0]), f"the mask has a batch of {batch}, the queries {q.shape[0]}")


def fitted(g: Graph, bias: Tensor, masks: list[Tensor], q: Tensor, kt: Tensor) -> Tensor:
    """A bias with four axes, a row for every query and a number for every key, as attention ops want it.

    Queries of three axes have one head and no axis for it, and so have the masks.
    """
    if q.rank == 4:
        for mask in masks:
            require_fits(mask, q)
        return whole(g, bias, masks, q, kt)
    require(all(mask.rank is not None and mask.rank < 4 for mask in masks), "a mask has more axes than the scores")
    rank = max(mask.rank for mask in masks)
    return spread(g, g.unsqueeze(bias, [1] if rank == 3 else list(range(4 - rank))), q, kt)


def whole(g: Graph, bias: Tensor, masks: list[Tensor], q: Tensor, kt: Tensor) -> Tensor:
    """A bias for queries of four axes, repeated where it is not known to have all rows and keys."""
    missing = 4 - max(mask.rank for mask in masks)
    shaped = bias if not missing else g.unsqueeze(bias, list(range(missing)))
    wanted = (q.sizes[2], kt.sizes[3]) if q.sizes and kt.sizes else ()
    sides = [tuple(mask.sizes[-2:]) if mask.rank > 1 and mask.sizes else () for mask in masks]
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
