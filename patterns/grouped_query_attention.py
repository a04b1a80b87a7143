"""Grouped-query attention (Ainslie et al., arXiv:2305.13245): several heads of queries share one of keys and values."""

from typing import Any

from surgeon import Graph, Tensor, require, rule
from ._attention import NON_FINITE
from ._grouped import grouped, require_grouped
from ._heads import MEANT, OverHeads, are_groups, copied, maybe_cast, of_copies, rows_of
from ._layouts import in_dtype, joined

OURS = ("kv_num_heads", "softcap", "causal")  # attributes of GroupQueryAttention that go over into the new node
DIFFERS = {"non_finite": NON_FINITE}


def grouped_by_copies(g: Graph, m: OverHeads) -> Any:
    """GroupQueryAttention, as another rule wrote it, over copies of keys and values; it reads their shape too."""
    keys, values = (maybe_cast(g, joined(g, copied(g, x))) for x in (m.k, m.v))
    more: dict[str, Any] = {"attention_bias": m.bias, "outputs": 3, **m.attributes}
    counts: dict[str, Any] = {"seqlens_k": g.any_tensor(), "total_sequence_length": g.any_tensor()}
    return g.ms_group_query_attention(m.q, g.shared(keys), values, **counts, **more)[0]


def standard_by_copies(g: Graph, m: OverHeads) -> Any:
    """Attention over copies of keys and values."""
    return g.attention(m.q, copied(g, m.k), copied(g, m.v), m.bias, **m.attributes)


@rule(patterns=[of_copies, grouped_by_copies], conditions=[are_groups], differs=DIFFERS)
def grouped_query_attention(g: Graph, m: OverHeads) -> Tensor:
    """Let an attention share keys and values among heads instead of copying them: GroupQueryAttention.

    What: attention in which each head of keys and values serves several of queries in a row.
    Numerics: rounding only, for finite numbers.

    With a bias ONNX Runtime runs it on CUDA in releases from the second half of 2026 on (microsoft/onnxruntime#29525).
    """
    return without_copies(g, m, m.attributes.get("causal", 1) if "kv_num_heads" in m.attributes else 0)


@rule(
    patterns=[of_copies],
    conditions=[are_groups],
    differs={**DIFFERS, "extreme": "a score beside which the number for the future is small is hidden"},
)
def grouped_causal_attention(g: Graph, m: OverHeads) -> Tensor:
    """Let a causal attention share keys and values among heads instead of copying them: GroupQueryAttention.

    What: as `grouped_query_attention`, for an attention that hides the future by itself.
    Numerics: rounding only, for finite numbers.
    """
    require(m.attributes.get("unidirectional") == 1, "unidirectional is not 1: the future is not hidden by itself")
    return without_copies(g, m, 1, "unidirectional")


@rule(patterns=[standard_by_copies], conditions=[are_groups], target="onnx", opset=23)
def grouped_attention(g: Graph, m: OverHeads) -> Any:
    """Let Attention share keys and values among heads instead of copying them.

    What: Attention takes fewer heads of keys and values than of queries; each serves several of those in a row.
    Numerics: none.
    """
    return g.attention(m.q, m.k.x, m.v.x, m.bias, **m.attributes)


def without_copies(g: Graph, m: OverHeads, causal: int, *said: str) -> Tensor:
    """GroupQueryAttention over what the copies are made of.  said: attributes that this says otherwise."""
    heads = m.attributes["num_heads"]
    others = set(m.attributes) - {*MEANT, *OURS, *said}
    require(not others, f"GroupQueryAttention has no {', '.join(sorted(others))}")
    require(m.k.columns == m.v.columns, "keys and values are of different size")
    require(heads == m.k.heads * m.k.number, "the copies are not the heads of the attention")
    require_grouped(m.q.shape and m.q.shape[1], m.k.x.shape[2], m.k.columns)
    parts = (m.q, *(in_dtype(g, rows_of(g, x), m.q.dtype, x.dtype) for x in (m.k.x, m.v.x)))
    numbers = {name: m.attributes[name] for name in ("scale", "softcap") if name in m.attributes}
    made: Tensor = grouped(g, parts, m.bias, heads, m.k.heads, causal=causal, **numbers)[0]
    return made
