"""Keys and values as heads: joined in one axis, repeated for several heads of queries, or appended to a past."""

from typing import Any

from surgeon import Captures, Graph, Tensor, dims, require

LAYOUT_INDEPENDENT_ATTRIBUTES = {
    "num_heads",
    "scale",
    "mask_filter_value",
}  # attributes whose meaning does not depend on the rows


class KVHeads(Captures):
    """Keys or values.  Each head may be repeated for several heads of queries.

    x: the heads themselves. joined: the heads joined in one axis. spread: the heads, each repeated.
    """

    x: Tensor = dims("batch .heads rows columns")
    spread: Tensor | Any = dims("batch copies rows columns", default=None)
    joined: Tensor | Any = dims("batch rows heads*columns", default=None)
    heads: int
    copies: int = 0

    @property
    def number(self) -> int:
        """How often each head is repeated."""
        return self.copies // self.heads or 1


class CachedKV(KVHeads):
    """Keys or values that are appended to a past. x: both together."""

    past: Tensor = dims("_ heads before columns")
    new: Tensor = dims("batch heads after columns")
    columns: int


class CachedKeysValues(Captures):
    """Keys and values appended to a past."""

    k: CachedKV
    v: CachedKV


class AttentionOverHeads(Captures):
    """An attention node over heads of keys and values. standard: its output if the node is Attention (ONNX)."""

    q: Tensor
    k: KVHeads
    v: KVHeads
    bias: Tensor | Any = None
    standard: Tensor | Any = None
    attributes: dict[str, Any]


class AttentionWithPast(AttentionOverHeads, CachedKeysValues):
    """The same over keys and values appended to a past, or over copies of them."""

    k: CachedKV
    v: CachedKV


def concat_past(g: Graph, m: CachedKV) -> Tensor:
    """Heads appended to a past."""
    m.x = g.concat(m.past, m.new, axis=2)
    return m.x


def repeated_heads(g: Graph, m: KVHeads) -> Tensor:
    """Each head several times, one copy after the other."""
    m.spread = g.repeated_heads(m.x)
    return m.spread


def maybe_packed(g: Graph, x: Tensor) -> Tensor:
    """Heads, or the same heads joined in the last axis."""
    return g.any_of(x, g.joined_heads(x))


def attention_over_repeated_kv(g: Graph, m: AttentionOverHeads) -> Any:
    """MultiHeadAttention over copies of keys and values, joined or not, and optionally cast."""
    keys, values = (g.maybe_narrower(maybe_packed(g, repeated_heads(g, x))) for x in (m.k, m.v))
    return g.ms_multi_head_attention(m.q, keys, values, attention_bias=m.bias, **m.attributes)


def require_copies_of_heads(m: AttentionOverHeads, heads: int) -> None:
    """Require as many copied heads as the queries have; keys and values have equal ones."""
    require(
        heads == m.k.heads * m.k.number, "the number of copied heads must equal the number of heads of the attention"
    )


def have_equal_pasts(m: CachedKeysValues) -> None:
    """Require that the pasts of keys and values have the same length."""
    is_one = m.k.before == m.v.before or m.k.after == m.v.after
    require(is_one, "the pasts of keys and values may differ in length")


def require_cache_compatible(m: AttentionWithPast) -> None:
    """Require values of the size of keys, and only attributes that a past does not change (MultiHeadAttention)."""
    others = m.attributes.keys() - LAYOUT_INDEPENDENT_ATTRIBUTES
    require(not others, f"with a past, these attributes have another meaning: {', '.join(sorted(others))}")
    require(m.k.columns == m.v.columns, "keys and values have different sizes")
