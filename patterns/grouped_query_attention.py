"""Grouped-query attention (Ainslie et al., arXiv:2305.13245): several heads of queries share one of keys and values."""

from typing import Any

from surgeon import Graph, Tensor, require, rule
from ._attention import NON_FINITE, in_dtype
from ._cache import rows_of
from ._grouped import grouped, require_grouped
from ._layouts import joined, reshaped

OURS = ("kv_num_heads", "softcap", "causal")  # attributes of GroupQueryAttention that go over into the new node


def repeated(g: Graph, x: Tensor, name: str) -> Tensor:
    """Each head of [batch, heads, rows, columns] several times, one copy after the other."""
    copies = g.capture(f"{name}_copies", g.expand(g.unsqueeze(x, [2]), g.any_tensor()))
    return g.capture(f"{name}_heads", reshaped(g, copies))


def joined_and_cast(g: Graph, x: Tensor) -> Tensor:
    """The heads beside each other in the last axis, perhaps in another dtype."""
    made = joined(g, x)
    return g.any_of(made, *(g.cast(made, to=dtype) for dtype in ("float32", "float16")))


def by_copies(g: Graph, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, **attributes: Any) -> Any:
    """MultiHeadAttention over copies of keys and values."""
    keys, values = joined_and_cast(g, repeated(g, k, "k")), joined_and_cast(g, repeated(g, v, "v"))
    return g.ms_multi_head_attention(q, keys, values, None, None, bias, **attributes)


def grouped_by_copies(
    g: Graph, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, **attributes: Any
) -> Tensor:
    """GroupQueryAttention, as another rule wrote it, over copies of keys and values; it reads their shape too."""
    keys, values = g.shared(joined_and_cast(g, repeated(g, k, "k"))), joined_and_cast(g, repeated(g, v, "v"))
    last, total = g.any_tensor(), g.any_tensor()
    found = g.ms_group_query_attention(
        q, keys, values, None, None, last, total, None, None, None, bias, outputs=3, **attributes
    )
    return found[0]


def standard_by_copies(g: Graph, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, **attributes: Any) -> Any:
    """Attention over copies of keys and values."""
    return g.attention(q, repeated(g, k, "k"), repeated(g, v, "v"), bias, **attributes)


def are_copies(k: Tensor, v: Tensor, k_copies: Tensor, v_copies: Tensor, k_heads: Tensor, v_heads: Tensor) -> None:
    """Copies are made along an axis of their own, which is then joined with that of the heads."""
    for x, copies, heads in ((k, k_copies, k_heads), (v, v_copies, v_heads)):
        require(x.shape is not None and copies.shape is not None and heads.shape is not None, "a shape is unknown")
        require(
            x.rank == 4 and copies.rank == 5, "keys or values have other axes than batch, head, row, column"
        )
        batch, own, rows, columns = x.shape
        number = copies.shape[2]
        require(isinstance(own, int) and isinstance(number, int), "the number of heads is unknown")
        require(copies.shape == (batch, own, number, rows, columns), "more than the heads is copied")
        require(heads.shape == (batch, own * number, rows, columns), "the copies are joined with another axis")
    require(k.shape[1] == v.shape[1], "keys and values have different numbers of heads")


@rule(
    patterns=[by_copies, grouped_by_copies],
    conditions=[are_copies],
    differs={"non_finite": NON_FINITE},
)
def grouped_query_attention(
    g: Graph,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    k_heads: Tensor,
    attributes: dict[str, Any],
    bias: Tensor | None = None,
) -> Tensor:
    """Let an attention share keys and values among heads instead of copying them: GroupQueryAttention.

    What: attention in which each head of keys and values serves several of queries in a row.
    Numerics: rounding only, for finite numbers.

    With a bias ONNX Runtime runs it on CUDA in releases from the second half of 2026 on (microsoft/onnxruntime#29525).
    """
    is_grouped = "kv_num_heads" in attributes
    return without_copies(g, q, k, v, k_heads, attributes, attributes.get("causal", 1) if is_grouped else 0, bias)


def without_copies(
    g: Graph,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    k_heads: Tensor,
    attributes: dict[str, Any],
    causal: int,
    bias: Tensor | None = None,
) -> Tensor:
    """GroupQueryAttention over what the copies are made of."""
    others = set(attributes) - {"num_heads", "scale", "mask_filter_value", *OURS}
    require(not others, f"GroupQueryAttention has no {', '.join(sorted(others))}")
    heads, columns, width = k.shape[1], k.shape[3], v.shape[3]
    require(columns == width, "keys and values are of different size")
    require(attributes["num_heads"] == k_heads.shape[1], "the copies are not the heads of the attention")
    require_grouped(q.shape and q.shape[1], k.shape and k.shape[2], columns)
    keys, values = (in_dtype(g, rows_of(g, x), q.dtype, x.dtype) for x in (k, v))
    numbers = {name: attributes[name] for name in ("scale", "softcap") if name in attributes}
    return grouped(g, q, keys, values, bias, attributes["num_heads"], heads, causal=causal, **numbers)


def causal_by_copies(g: Graph, q: Tensor, k: Tensor, v: Tensor, **attributes: Any) -> Any:
    """MultiHeadAttention over copies of keys and values, as heads or joined, which hides the future."""
    keys, values = repeated(g, k, "k"), repeated(g, v, "v")
    keys, values = (g.any_of(x, joined_and_cast(g, x)) for x in (keys, values))
    return g.ms_multi_head_attention(q, keys, values, unidirectional=1, **attributes)


@rule(
    patterns=[causal_by_copies],
    conditions=[are_copies],
    differs={"non_finite": NON_FINITE, "extreme": "a score beside which the number for the future is small is hidden"},
)
def grouped_causal_attention(
    g: Graph, q: Tensor, k: Tensor, v: Tensor, k_heads: Tensor, attributes: dict[str, Any]
) -> Tensor:
    """Let a causal attention share keys and values among heads instead of copying them: GroupQueryAttention.

    What: as `grouped_query_attention`, for an attention that hides the future by itself.
    Numerics: rounding only, for finite numbers.
    """
    return without_copies(g, q, k, v, k_heads, attributes, 1)


@rule(patterns=[standard_by_copies], conditions=[are_copies], target="onnx", opset=23)
def grouped_attention(
    g: Graph, q: Tensor, k: Tensor, v: Tensor, attributes: dict[str, Any], bias: Tensor | None = None
) -> Any:
    """Let Attention share keys and values among heads instead of copying them.

    What: Attention takes fewer heads of keys and values than of queries; each serves several of those in a row.
    Numerics: none.
    """
    return g.attention(q, k, v, bias, **attributes)
