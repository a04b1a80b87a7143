"""The bias of attention scores, in the shapes and dtypes that attention ops require.

Softmax gives every key of a fully hidden row the same weight.  If a low number is added to the scores instead, it must
absorb them completely, or the scores must be zero.  Therefore the queries of such rows may be set to zero.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from ml_dtypes import finfo

from surgeon import Graph, Tensor, require
from .._common.axes import is_same_size
from .._common.where_masks import where_masked
from ._decomposed_attention import AttentionScores

MASKING_THRESHOLD = (
    -1e4
)  # a number that is added to hide a key is lower; a number that replaces a hidden score may be equal
ABSORBING_VALUE = -1e30  # next to a lower number, scores are lost in rounding (in double precision up to 1e13)


def additive_bias(g: Graph, m: AttentionScores, dtype: Any) -> Any:
    """Return the sum of the masks and of a low number for scores that a condition hides, or None.

    The condition also hides the sum before it.
    """
    parts = [mask if mask.dtype in (None, dtype) else g.cast(mask, to=dtype) for mask in m.masks]
    if m.low is None:
        made = None if not parts else parts[0] if len(parts) == 1 else g.add(*parts)
        if m.floor is None:
            return made
        require(
            m.floor < ABSORBING_VALUE,
            f"masked scores are raised to {m.floor:g}, which is too high to absorb the scores",
        )
        return g.max(made, np.array(m.floor, dtype))
    seen = np.zeros((), dtype) if m.mask is None else parts.pop(0)
    made = where_masked(g, m, seen, masked_value_for(m, dtype))
    return g.add(made, *parts) if parts else made


def require_mask_broadcasts(m: AttentionScores, keys: Any) -> None:
    """Require that the mask does not have more batches, heads or rows than the queries.

    The number of its columns is the number of keys or 1, because values have no more rows.  The number of its rows is
    known too if the mask is square and there is a query for each key.  The names of its sizes do not matter then.
    """
    wanted = m.q.shape
    for mask in m.given:
        require(mask.shape is not None and wanted is not None, "the shape of the mask or of the queries is unknown")
        require(mask.rank <= len(wanted), "the mask has more axes than the scores")
        sizes = (*[1] * (len(wanted) - mask.rank), *mask.shape)
        names = ("batches", "heads", "rows") if len(sizes) == 4 else ("batches", "rows")
        has_rows = (wanted[-2] == keys and sizes[-2] == sizes[-1]) or has_all_rows(sizes[-2:], wanted[-2], keys)
        for name, own, size in zip(names, sizes, wanted, strict=False):
            fits = own == 1 or is_same_size(own, size) or (not isinstance(own, int) and own.is_min_with_one(size))
            fits = fits or (has_rows and name == "rows")
            is_named = all(re.fullmatch(r"(max\()?[a-zA-Z_]\w*(, \w+\))?", str(one)) for one in (own, size))
            help_ = "; if both sizes are always equal, declare it with surgeon edit --join-dim" if is_named else ""
            require(fits, f"the mask has {own} {name}, but the queries have {size}{help_}")


def has_all_rows(own: Sequence[Any], rows: Any, keys: Any) -> bool:
    """Return whether a mask with a number for every key has a row for every query too, wherever the model runs.

    own: its rows and columns.  A slice of a buffer may be shorter, but a buffer with all columns has all rows too.
    """
    if is_same_size(own[0], rows):
        return True
    return is_same_size(own[1], keys) and not isinstance(own[0], int) and own[0].is_part_of_buffer(rows, own[1], keys)


def broadcast_bias(g: Graph, m: AttentionScores, bias: Any, keys: Any, count: Callable[[], Tensor]) -> Any:
    """Return a bias with four axes, a row for every query and a number for every key, as attention ops require.

    Return None without a bias.  Queries with three axes have one head and no axis for it, and so do the masks. keys,
    count: the number of keys as a size, and as a function that computes it.
    """
    if bias is None:
        return None
    require_mask_broadcasts(m, keys)
    rank = max(mask.rank for mask in m.given)
    shaped = bias if rank == 4 else g.unsqueeze(bias, [1] if rank == m.q.rank else list(range(4 - rank)))
    own = [tuple(mask.shape[-2:]) if mask.rank > 1 else () for mask in m.given]
    is_whole = [bool(side) and is_same_size(side[1], keys) and has_all_rows(side, m.q.shape[-2], keys) for side in own]
    is_row = [side == (1, keys) for side in own]
    if m.q.rank == 4 and any(is_whole) and all(map(any, zip(is_whole, is_row, strict=True))):
        return shaped
    return g.spread(shaped, [1, 1, g.size_of(m.q, m.q.rank - 2), count()])


def masked_value_for(m: AttentionScores, dtype: Any) -> Any:
    """Return the number for a hidden score in a dtype: −∞, or the least number, which absorbs the scores.

    If a mask may hide keys too, the number stays the same.  Then keys that both hide rank below keys that one of them
    hides.  The function refuses a number that does not absorb scores if both may hide a row.
    """
    low, least = m.low, float(finfo(dtype).min)
    if not np.isfinite(m.hides_by):
        return np.array(m.hides_by, dtype)
    if not may_mask_other_keys(m):
        return np.array(least, dtype)
    is_told = all(masks_nothing(mask) for mask in m.masks) and leaves_a_key_in_each_row(*m.condition)
    require(
        is_told or m.changes_hidden_rows or least <= low < ABSORBING_VALUE,
        f"a row that the condition and a mask hide together would change, because {low:g} does not absorb the scores",
    )
    return np.array(max(low, least), dtype)


def may_mask_other_keys(m: AttentionScores) -> bool:
    """Return whether hidden scores may differ: a mask follows the condition, or a mask before it may hide others."""
    return m.second is not None or (m.mask is not None and not masks_nothing(m.mask))


def masks_nothing(mask: Tensor) -> bool:
    """Return whether a mask certainly hides nothing: a computed bias, or a bias looked up by relative position."""
    values = mask.drawn_from
    return mask.is_of_products if values is None else bool((values.astype(np.float64) > MASKING_THRESHOLD).all())


def leaves_a_key_in_each_row(mask: Tensor, shown: Any) -> bool:
    """Return whether a mask certainly leaves a key to every row.

    shown: the value for visible keys.  It is a boolean for a condition, and a lower bound for a mask that is added.
    """
    choice, is_truth = mask.choice, isinstance(shown, bool)

    def shows(value: Any) -> bool:
        return bool(value == shown if is_truth else value > shown)

    return choice is not None and choice.is_in_each_row(shows, mask.shape or ())
