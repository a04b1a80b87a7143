"""What an attention that is one node says, whatever op it is."""

from math import prod
from typing import Any, NamedTuple

import numpy as np

from surgeon import Graph, Match, Tensor, require
from ._attention import in_dtype
from ._attention_nodes import NODES, is_causal, require_told
from ._attention_padding import padding_of
from ._layouts import heads_of_rows

SAID = {"num_heads", "kv_num_heads", "q_num_heads", "scale", "softcap", "unidirectional", "is_causal", "causal"}
IDLE = {"mask_filter_value", "qk_matmul_output_mode", "softmax_precision"}  # of what is not there, or a hint
OFF = {
    "do_rotary": 0,
    "rotary_interleaved": 0,
    "local_window_size": -1,
    "smooth_softmax": -1,
    "sliding_window_cache": 0,
}

SHORT = "its mask is not known to have a column for each key, and a shorter one hides the rest"


class Said(NamedTuple):
    """An attention of queries, keys and values of [batch, heads, rows, columns].

    heads, columns: those of the queries, and of the values.  groups: the heads of keys and values.  bias: what is
    added to the scores, or the condition for them to count.  cap: 0 for none.  is_joined: whether the result has its
    heads joined.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    heads: int
    groups: int
    columns: int
    bias: Tensor | None
    is_condition: bool
    scale: float
    cap: float
    is_causal: bool
    is_joined: bool
    dtype: Any


def said(g: Graph, match: Match, is_wide: bool = False) -> Said:
    """What a node says.  is_wide: half precision is to be computed in float32, as ONNX Runtime's kernels do."""
    numbers: dict[str, Any] = match["attributes"]
    more = {name for name in set(numbers) - SAID - IDLE if name not in OFF or numbers[name] != OFF[name]}
    require(not more, f"nothing else has {', '.join(sorted(more))}")
    given = match[next(name for name in NODES if name in match.bound)]
    require(given.dtype is not None and given.shape is not None, "the dtype or the shape of what it reads is unknown")
    dtype = np.dtype(np.float32) if is_wide and given.dtype == np.float16 else given.dtype
    is_four = "node" in match.bound and given.rank == 4
    heads: Any = given.shape[1] if is_four else numbers.get("num_heads", numbers.get("q_num_heads"))
    groups: Any = match["k"].shape[1] if is_four else numbers.get("kv_num_heads", heads)
    require(isinstance(heads, int) and isinstance(groups, int), "the number of heads is unknown")
    if "packed" in match.bound:
        width = width_of(match["weights"])
        widths = (width, width, width)
        made = projected(g, match, width, dtype)
        q, k, v = (heads_of_rows(g, x, heads, width // heads) for x in made)
    else:
        require_told(match, given)
        sources = (given, match["k"], match["v"])
        sides = [x.shape[1::2] if x.rank == 4 else x.shape[2:] for x in sources]
        require(all(isinstance(size, int) for side in sides for size in side), "the size of the heads is unknown")
        widths = tuple(prod(side) for side in sides)
        parts = zip(sources, (heads, groups, groups), widths, shifts_of(g, match, widths, dtype), strict=True)
        q, k, v = (in_heads(g, x, number, width // number, dtype, shift) for x, number, width, shift in parts)
    scale = numbers.get("scale", 0.0)
    if "scale" not in numbers or (scale == 0 and "node" not in match.bound):  # for ONNX Runtime's own, 0 is no scale
        scale = (widths[0] // heads) ** -0.5
    bias = match["bias"] if "bias" in match.bound else None
    require(bias is None or "node" not in match.bound or is_whole(bias, match["k"]), SHORT)
    if bias is not None and bias.dtype != np.bool_:
        bias = in_dtype(g, bias, dtype)
    is_condition = bias is not None and match["bias"].dtype == np.bool_
    padding = padding_of(g, match, dtype)
    if padding is not None:
        bias = padding if bias is None else g.add(bias, padding)
    columns, cap = widths[2] // groups, numbers.get("softcap", 0.0)
    return Said(q, k, v, heads, groups, columns, bias, is_condition, scale, cap, is_causal(match), not is_four, dtype)


def is_whole(mask: Tensor, k: Tensor) -> bool:
    """Whether a mask of ONNX's Attention has a column for each key; of one that has fewer the rest are hidden."""
    return mask.shape is not None and k.shape is not None and bool(mask.shape) and mask.shape[-1] == k.shape[-2]


def width_of(weights: Tensor) -> int:
    """How wide queries, keys and values are, each, that Attention of ONNX Runtime's computes itself."""
    require(weights.shape is not None and isinstance(weights.shape[1], int), "the shape of the weights is unknown")
    return int(weights.shape[1]) // 3


def projected(g: Graph, match: Match, width: int, dtype: Any) -> list[Tensor]:
    """Queries, keys and values that it computes, heads joined."""
    packed, weights, added = (in_dtype(g, match[name], dtype) for name in ("packed", "weights", "added"))
    return list(g.split(g.add(g.matmul(packed, weights), added), [width, width, width], axis=-1, outputs=3))


def shifts_of(g: Graph, match: Match, widths: tuple[int, ...], dtype: Any) -> list[Tensor | None]:
    """What MultiHeadAttention adds to queries, keys and values itself; None where it adds nothing."""
    shifts = match["shifts"] if "shifts" in match.bound else None
    if shifts is None:
        return [None] * 3
    return list(g.split(in_dtype(g, shifts, dtype), list(widths), axis=-1, outputs=3))


def in_heads(g: Graph, x: Tensor, heads: int, columns: int, dtype: Any, shift: Tensor | None) -> Tensor:
    """[batch, heads, rows, columns] of heads that are joined, or that are so already, shifted."""
    if x.rank == 4:
        require(shift is None, "what is added to the heads of keys or values is not there")
        return in_dtype(g, x, dtype)
    whole = in_dtype(g, x, dtype)
    return heads_of_rows(g, whole if shift is None else g.add(whole, shift), heads, columns)
