"""Keys and values as heads: beside each other in one axis, copied for several heads of queries, or behind a past."""

from typing import Any

from surgeon import Captures, Graph, Tensor, dims, require

LAYOUT_INDEPENDENT_ATTRIBUTES = {
    "num_heads",
    "scale",
    "mask_filter_value",
}  # attributes that mean the same whatever the rows stand for


class KVHeads(Captures):
    """Keys or values, of which each head may be copied for several of queries.

    x: the heads themselves.  joined: they beside each other in one axis.  spread: they, each several times.
    """

    x: Tensor = dims("batch .heads rows columns")
    spread: Tensor | Any = dims("batch copies rows columns", default=None)
    joined: Tensor | Any = dims("batch rows heads*columns", default=None)
    heads: int
    copies: int = 0

    @property
    def number(self) -> int:
        """How often each head is there."""
        return self.copies // self.heads or 1


class CachedKV(KVHeads):
    """Keys or values that come behind those of a past; x: both."""

    past: Tensor = dims("_ heads before columns")
    new: Tensor = dims("batch heads after columns")
    columns: int


class CachedKeysValues(Captures):
    """Keys and values behind those of a past."""

    k: CachedKV
    v: CachedKV


class AttentionOverHeads(Captures):
    """An attention that is one node over heads of keys and values; standard: what it makes, where it is ONNX's own."""

    q: Tensor
    k: KVHeads
    v: KVHeads
    bias: Tensor | Any = None
    standard: Tensor | Any = None
    attributes: dict[str, Any]


class AttentionWithPast(AttentionOverHeads, CachedKeysValues):
    """The same over keys and values behind those of a past, or copies of them."""

    k: CachedKV
    v: CachedKV


def concat_past(g: Graph, m: CachedKV) -> Tensor:
    """Heads behind those of a past."""
    m.x = g.concat(m.past, m.new, axis=2)
    return m.x


def repeated_heads(g: Graph, m: KVHeads) -> Tensor:
    """Each head several times, one copy after the other."""
    m.spread = g.repeated_heads(m.x)
    return m.spread


def maybe_packed(g: Graph, x: Tensor) -> Tensor:
    """Heads as they are, or beside each other in the last axis."""
    return g.any_of(x, g.joined_heads(x))


def attention_over_repeated_kv(g: Graph, m: AttentionOverHeads) -> Any:
    """MultiHeadAttention over copies of keys and values, joined or not, and perhaps cast."""
    keys, values = (g.maybe_narrower(maybe_packed(g, repeated_heads(g, x))) for x in (m.k, m.v))
    return g.ms_multi_head_attention(m.q, keys, values, attention_bias=m.bias, **m.attributes)


def have_equal_pasts(m: CachedKeysValues) -> None:
    """Keys and values are behind pasts of one length."""
    is_one = m.k.before == m.v.before or m.k.after == m.v.after
    require(is_one, "the pasts of keys and values may differ in length")


def require_cache_compatible(m: AttentionWithPast) -> None:
    """Values of the size of keys, and no attribute that a past changes, as MultiHeadAttention wants it."""
    others = m.attributes.keys() - LAYOUT_INDEPENDENT_ATTRIBUTES
    require(not others, f"with a past, {', '.join(sorted(others))} would mean something else")
    require(m.k.columns == m.v.columns, "keys and values are of different size")
