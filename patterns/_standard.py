"""ONNX's own Attention, as its kernels want it."""

from typing import Any

import numpy as np
from ml_dtypes import finfo

from patterns._attention import dtype_of, finished, in_dtype, scale_of
from patterns._masks import LOWEST, fitted, given
from surgeon import Graph, Match, Tensor, require


def standard(g: Graph, match: Match) -> Tensor:
    """ONNX's own op, of [batch, heads, rows, columns]; one head has no axis of heads in the model."""
    q, kt = match["q"], match["kt"]
    dtype = dtype_of(match)
    mask = mask_of(g, match, dtype)
    capped: dict[str, Any] = {"softcap": match["cap"]} if "cap" in match.bound else {}
    turned = (q, g.transpose(kt, perm=[*range(q.rank - 2), q.rank - 1, q.rank - 2]), match["v"])
    ours, keys, values = (in_dtype(g, x, dtype) for x in turned)
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
    return fitted(g, bias_of(g, match, dtype), masks, q, kt)


def bias_of(g: Graph, match: Match, dtype: Any) -> Any:
    """What is added to the scores, or the condition itself where it alone hides some of them with −∞."""
    masks = [in_dtype(g, match[name], dtype) for name in ("mask", "second") if name in match.bound]
    added = seen(g, g.add(*masks) if len(masks) == 2 else masks[0], dtype) if masks else np.zeros((), dtype)
    if "low" not in match.bound:
        return added
    low, is_kept = match["low"], "kept" in match.bound
    require(low < LOWEST, f"{low} in the place of a score hides nothing")
    if low == -np.inf and not masks:
        return match["kept"] if is_kept else g.not_(match["hidden"])
    put = np.array(max(low, float(limits(dtype)[1])) if np.isfinite(low) else low, dtype)
    return g.where(match["kept"], added, put) if is_kept else g.where(match["hidden"], put, added)


def limits(dtype: Any) -> tuple[Any, Any]:
    """The least number of a dtype, which ONNX Runtime's kernel takes for −∞, and the one above it."""
    least = np.array(finfo(dtype).min, dtype)
    return least, np.nextafter(least, np.zeros((), dtype))


def seen(g: Graph, added: Tensor, dtype: Any) -> Tensor:
    """What is added to the scores, where a row that it hides whole stays what it is.

    ONNX Runtime's kernel takes the least number of a dtype for −∞, and makes a row of it zero.  Added to the scores of
    a whole row in float32, that number leaves nothing of them, and the row becomes the mean of the values: the number
    above it does so too.  In float16 they keep some of their differences, all of which softmax sees once what the whole
    row has in common is taken off again.
    """
    if dtype != np.float16:
        least, above = limits(dtype)
        return g.where(g.equal(added, least), above, added)
    most = g.reduce_max(added, [-1], keepdims=1)
    return g.sub(added, g.where(g.less(most, np.array(LOWEST, dtype)), most, np.zeros((), dtype)))
