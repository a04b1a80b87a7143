"""ONNX's own Attention, as its kernels want it."""

from typing import Any

import numpy as np
from ml_dtypes import finfo

from surgeon import Graph, Match, Tensor
from ._attention import dtype_of, finished, in_dtype, scale_of
from ._hidden import LOWEST, condition_of, masks_of, queries, shows_rows
from ._masks import bias_of, fitted, given

COARSE = -64  # below it, half precision leaves 1/16 of a score at best, as the kernel adds up in it


def standard(g: Graph, match: Match) -> Tensor:
    """ONNX's own op, of [batch, heads, rows, columns]; one head has no axis of heads in the model."""
    q, kt = match["q"], match["kt"]
    dtype = dtype_of(match)
    mask = mask_of(g, match, dtype)
    capped: dict[str, Any] = {"softcap": match["cap"]} if "cap" in match.bound else {}
    own = queries(g, match, dtype)
    turned = ((own, q), (g.transpose(kt, perm=[*range(q.rank - 2), q.rank - 1, q.rank - 2]), kt), (match["v"],) * 2)
    ours, keys, values = (in_dtype(g, made, dtype, x.dtype) for made, x in turned)
    if q.rank == 3:
        ours, keys, values = (g.unsqueeze(x, [1]) for x in (ours, keys, values))
    made = g.attention(ours, keys, values, mask, scale=scale_of(match), **capped)
    return finished(g, match, g.squeeze(made, [1]) if q.rank == 3 else made, dtype)


def mask_of(g: Graph, match: Match, dtype: Any) -> Tensor | None:
    """What Attention takes for the mask: four axes, a row for every query and a number for every key.

    The operator's text lets a mask have any shape that broadcasts; ONNX Runtime's kernel wants its last two in full.
    """
    q, kt, masks = match["q"], match["kt"], given(match)
    if not masks:
        return None
    return fitted(g, put_in(g, match, dtype), masks, q, kt)


def put_in(g: Graph, match: Match, dtype: Any) -> Any:
    """What is added to the scores, or the condition itself where it alone hides some of them with −∞."""
    has_nan = "guarded" not in match.bound
    if masks_of(match) or "low" not in match.bound:
        masks, added = given(match), bias_of(g, match, dtype)
        return added if len(masks) == 1 and shows_rows(masks[0], LOWEST) else seen(g, added, dtype, has_nan)
    condition, is_kept = condition_of(match)
    if np.isfinite(match["low"]):
        return bias_of(g, match, dtype, limits(dtype)[1])
    if has_nan and not shows_rows(condition, is_kept):
        return seen(g, bias_of(g, match, dtype), dtype)
    return condition if is_kept else g.not_(condition)


def limits(dtype: Any) -> tuple[Any, Any]:
    """The least number of a dtype, which ONNX Runtime's kernel takes for −∞, and the one above it."""
    least = np.array(finfo(dtype).min, dtype)
    return least, np.nextafter(least, np.zeros((), dtype))


def seen(g: Graph, added: Tensor, dtype: Any, has_nan: bool = True) -> Tensor:
    """What is added to the scores, where a row that it hides whole stays what it is.

    ONNX Runtime's kernel takes the least number of a dtype for −∞, and makes a row of it zero.  Added to the scores of
    a whole row in float32, that number leaves nothing of them, and the row becomes the mean of the values: the number
    above it does so too.  In float16 they keep some of their differences, all of which softmax sees once what the whole
    row has in common is taken off again.

    has_nan: softmax of a row of −∞ is to be NaN, which the operator by itself makes zero; −∞ less −∞ is NaN.
    """
    if dtype == np.float16:
        most = g.reduce_max(added, [-1], keepdims=1)
        return g.sub(added, g.where(g.less(most, np.array(COARSE, dtype)), most, np.zeros((), dtype)))
    least, above = limits(dtype)
    made: Tensor = g.where(g.equal(added, least), above, added)
    if has_nan:
        most = g.reduce_max(added, [-1], keepdims=1)
        made = g.add(made, g.sub(most, most))
    return made
