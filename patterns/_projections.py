"""Projections of one tensor, x @ w + bias, what attention makes of them, and their weights beside each other."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from surgeon import Constant, Graph, Match, Tensor, require
from ._layouts import HEADS_FIRST, reshaped, size_of
from ._masks import spread_to

Array = np.ndarray[Any, np.dtype[Any]]
PARTS = ("q", "k", "v")
NAMES = {"q": "queries", "k": "keys", "v": "values", "all": "projection"}


def linear(g: Graph, x: Tensor, w: Constant, bias: Constant, name: str) -> Tensor:
    """x @ w, perhaps + bias, perhaps as a Gemm of the rows of all batches, w perhaps transposed.

    w and bias are parameters of the pattern with the names `w_` and `b_` in front of `name`.
    """
    product = g.matmul(x, w)
    rows = g.capture(f"{name}_flat", g.shared(reshaped(g, x)))
    straight = g.any_of(g.gemm(rows, w, bias), g.gemm(rows, w))
    turned = g.capture(f"{name}_turned", g.any_of(g.gemm(rows, w, bias, transB=1), g.gemm(rows, w, transB=1)))
    flat = reshaped(g, g.any_of(straight, turned))
    return g.capture(name, g.any_of(g.add(product, bias), product, g.add(flat, bias), flat))


def has_four_axes(spread: Tensor, mask: Tensor) -> None:
    """A mask of four axes is spread to no more."""
    require(mask.rank == 4 and spread.rank in (4, None), "the mask has other axes than batch, head, row, column")


def attend(
    g: Graph, parts: Sequence[Tensor], factor: float, mask: Tensor, bias: Tensor | None, **attributes: Any
) -> Any:
    """MultiHeadAttention, with or without a bias, or with a mask that is spread to the rows and keys there are.

    The queries may be multiplied with a number.  The arithmetic for the mask's target may read queries and keys; it
    goes with them.
    """
    spread = g.such_that(g.expand(mask, g.any_tensor()), has_four_axes, mask)
    q, k, v = parts
    scaled = g.any_of(q, g.mul(q, factor))
    biased = g.ms_multi_head_attention(scaled, k, v, None, None, bias, **attributes)
    return g.any_of(biased, g.ms_multi_head_attention(scaled, k, v, None, None, spread, **attributes))


def as_heads(g: Graph, rows: Tensor, name: str) -> Tensor:
    """Rows, or the heads that they are split into."""
    return g.any_of(rows, g.capture(f"{name}_heads", g.transpose(reshaped(g, rows), perm=HEADS_FIRST)))


def require_linear(match: Match, x: Tensor, name: str) -> int:
    """A projection keeps batch and rows of x, also where a Gemm takes them as one axis.  Returns its columns."""
    made, told = match[name], NAMES[name]
    require(match[f"w_{name}"].rank == 2, f"the weights of the {told} are no matrix")
    require(x.rank == 3, "what is projected has other axes than batch, row, column")
    require(made.rank == 3, f"the {told} have other axes than batch, row, column")
    require(made.shape[:2] == x.shape[:2], f"the {told} have other rows than what is projected")
    require(isinstance(made.shape[2], int), f"the number of columns of the {told} is unknown")
    if f"{name}_flat" in match.bound:
        flat = match[f"{name}_flat"].shape
        require(flat is not None and len(flat) == 2 and flat[1] == x.shape[2], f"the {told} are made of other rows")
    return int(made.shape[2])


def require_heads(match: Match, heads: int) -> None:
    """Keys and values that come as heads are split into those of the attention, in their order."""
    for name in PARTS[1:]:
        if f"{name}_heads" in match.bound:
            batch, rows, width = match[name].shape
            wanted = (batch, heads, rows, width // heads)
            found = match[f"{name}_heads"].shape
            require(found == wanted, f"the {NAMES[name]} are not split into the attention's heads")


def weights(g: Graph, match: Match, names: Sequence[str]) -> Tensor:
    """The weights of projections beside each other: [columns of x, columns of all]."""
    turned = [f"{name}_turned" in match.bound for name in names]
    parts = [match[f"w_{name}"] for name in names]
    if all(turned):
        return g.transpose(parts[0] if len(parts) == 1 else g.concat(*parts, axis=0), perm=[1, 0])
    straight = [g.transpose(w, perm=[1, 0]) if flag else w for w, flag in zip(parts, turned, strict=True)]
    return straight[0] if len(straight) == 1 else g.concat(*straight, axis=1)


def biases(match: Match, widths: Mapping[str, int], dtype: Any) -> Array:
    """The biases of projections, of so many columns each, one behind the other; zeros where there is none."""
    found = [np.zeros(0, dtype)]
    for name, width in widths.items():
        if f"b_{name}" not in match.bound:
            found.append(np.zeros(width, dtype))
            continue
        values = match[f"b_{name}"].values
        is_row = values.size in (1, width) and values.shape[-1:] in ((), (values.size,))
        require(is_row and values.ndim <= 3, "a bias has other axes than that of the columns")
        found.append(np.broadcast_to(values.reshape(-1), (width,)))
    return np.concatenate(found)


def whole(g: Graph, match: Match, x: Tensor, sizes: list[int]) -> Tensor:
    """com.microsoft::Attention of x and its projections, of so many columns for queries, keys and values."""
    attributes = dict(match["attributes"])
    heads = attributes["num_heads"]
    require(sizes[0] == sizes[1], "queries and keys have different numbers of columns")
    require(all(size % heads == 0 for size in sizes), "the columns cannot be shared among the heads")
    if sizes[2] != sizes[0]:
        attributes["qkv_hidden_sizes"] = sizes
    if "factor" in match.bound:
        scale = match["factor"] * (attributes.get("scale", 0.0) or (sizes[0] // heads) ** -0.5)
        require(isfinite(scale) and np.float32(scale) != 0, "a scale of 0 means another to ONNX Runtime")
        attributes["scale"] = scale
    widths = {"all": sum(sizes)} if "all" in match.bound else dict(zip(PARTS, sizes, strict=True))
    packed = g.literal(biases(match, widths, match["x"].dtype))  # also where all are zeros: the CPU's kernel needs them
    if "mask" in match.bound:
        rows = size_of(g, x, 1)
        bias = spread_to(g, match["mask"], rows, rows)
    else:
        bias = match["bias"]
    return g.ms_attention(x, weights(g, match, [*widths]), packed, None, None, bias, **attributes)
