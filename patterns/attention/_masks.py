"""What is added to the scores of an attention, in the shapes and dtypes that attention ops take.

Softmax makes one weight for every key of a row that a condition hides whole.  Where a low number is added to scores
instead, it must leave nothing of them, or there must be none: the queries of such rows are zero then.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from ml_dtypes import finfo

from surgeon import Graph, Tensor, require
from .._common.axes import is_same_size
from .._common.where_masks import where_masked
from ._decomposed_attention import AttentionScores

MASKING_THRESHOLD = (
    -1e4
)  # what is added to the scores of keys that are not to be seen is below; what is put there may be this
ABSORBING_VALUE = -1e30  # beside what is below, scores are lost in rounding, in double precision up to 1e13


def additive_bias(g: Graph, m: AttentionScores, dtype: Any) -> Any:
    """What is added to the scores, if anything: masks as they are, and a low number where a condition hides scores.

    The condition hides what was added before it too.
    """
    parts = [mask if mask.dtype in (None, dtype) else g.cast(mask, to=dtype) for mask in m.masks]
    if m.low is None:
        made = None if not parts else parts[0] if len(parts) == 1 else g.add(*parts)
        if m.floor is None:
            return made
        require(m.floor < ABSORBING_VALUE, f"beside {m.floor:g}, to which masked scores are raised, scores still count")
        return g.max(made, np.array(m.floor, dtype))
    seen = np.zeros((), dtype) if m.mask is None else parts.pop(0)
    made = where_masked(g, m, seen, masked_value_for(m, dtype))
    return g.add(made, *parts) if parts else made


def require_mask_broadcasts(m: AttentionScores, keys: Any) -> None:
    """A mask must not have more batches, heads or rows than the queries, which would be repeated for them.

    Its columns are the keys, or one for all: values have no more rows.  So are its rows where it is as high as it is
    wide and there is a query for each key, whatever its sizes are called.
    """
    wanted = m.q.shape
    for mask in m.given:
        require(mask.shape is not None and wanted is not None, "the shape of the mask or of the queries is unknown")
        require(mask.rank <= len(wanted), "the mask has more axes than the scores")
        sizes = (*[1] * (len(wanted) - mask.rank), *mask.shape)
        names = ("batches", "heads", "rows") if len(sizes) == 4 else ("batches", "rows")
        is_square = wanted[-2] == keys and sizes[-2] == sizes[-1]
        for name, own, size in zip(names, sizes, wanted, strict=False):
            fits = own == 1 or is_same_size(own, size) or (not isinstance(own, int) and own.is_min_with_one(size))
            fits = fits or (is_square and name == "rows")
            is_named = all(re.fullmatch(r"(max\()?[a-zA-Z_]\w*(, \w+\))?", str(one)) for one in (own, size))
            help_ = "; if these are always as many, say so by surgeon edit --join-dim" if is_named else ""
            require(fits, f"the mask has {own} {name} where the queries have {size}{help_}")


def broadcast_bias(g: Graph, m: AttentionScores, bias: Any, keys: Any, count: Callable[[], Tensor]) -> Any:
    """A bias with four axes, a row for every query and a number for every key, as attention ops want it; or None.

    Queries of three axes have one head and no axis for it, and so have the masks.  keys, count: how many keys there
    are, as a size, and as what computes it.
    """
    if bias is None:
        return None
    require_mask_broadcasts(m, keys)
    rank, sides = max(mask.rank for mask in m.given), (m.q.shape[-2], keys)
    shaped = bias if rank == 4 else g.unsqueeze(bias, [1] if rank == m.q.rank else list(range(4 - rank)))
    own = [tuple(mask.shape[-2:]) if mask.rank > 1 else () for mask in m.given]
    is_whole = [len(side) == 2 and all(map(is_same_size, side, sides)) for side in own]
    is_row = [side == (1, sides[1]) for side in own]
    if m.q.rank == 4 and any(is_whole) and all(map(any, zip(is_whole, is_row, strict=True))):
        return shaped
    return g.spread(shaped, [1, 1, g.size_of(m.q, m.q.rank - 2), count()])


def masked_value_for(m: AttentionScores, dtype: Any) -> Any:
    """What stands for a hidden score in an operation of a dtype: −∞, or the least number, which leaves most of a row.

    With a mask that may hide keys too, the number stays what it was, so that keys that both hide come behind those that
    one of them does.  Refuses a number beside which scores count, where a row may be hidden by both.
    """
    low, least = m.low, float(finfo(dtype).min)
    if not np.isfinite(m.hides_by):
        return np.array(m.hides_by, dtype)
    if not may_mask_other_keys(m):
        return np.array(least, dtype)
    is_told = all(masks_nothing(mask) for mask in m.masks) and leaves_a_key_in_each_row(*m.condition)
    require(
        is_told or least <= low < ABSORBING_VALUE,
        f"a row that the condition hides together with a mask would not be the same: beside {low:g} scores still count",
    )
    return np.array(max(low, least), dtype)


def may_mask_other_keys(m: AttentionScores) -> bool:
    """Whether hidden scores may differ: by a mask behind the condition, or as one before it, not mild, hides others."""
    return m.second is not None or (m.mask is not None and not masks_nothing(m.mask))


def masks_nothing(mask: Tensor) -> bool:
    """Whether a mask surely hides nothing: a bias that is computed, or looked up by the distance of two places."""
    values = mask.drawn_from
    return mask.is_of_products if values is None else bool((values.astype(np.float64) > MASKING_THRESHOLD).all())


def leaves_a_key_in_each_row(mask: Tensor, shown: Any) -> bool:
    """Whether a mask surely leaves a key to every row.

    shown: what it holds for keys that are seen: a truth in a condition, more than this number in what is added.
    """
    choice, is_truth = mask.choice, isinstance(shown, bool)

    def shows(value: Any) -> bool:
        return bool(value == shown if is_truth else value > shown)

    return choice is not None and choice.is_in_each_row(shows, mask.shape or ())
