"""Layouts of attention ops: heads beside each other, or each on its own, as their neighbours have them."""

from typing import Any

from surgeon import Graph, Tensor, require, rule
from ._layouts import HEADS_FIRST, joined, reshaped


def of_joined_heads(g: Graph, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, **attributes: Any) -> Any:
    """MultiHeadAttention whose keys and values come as heads and are joined for it."""
    keys, values = g.capture("keys", joined(g, k)), g.capture("values", joined(g, v))
    return g.ms_multi_head_attention(q, keys, values, None, None, bias, **attributes)


def joins_heads(x: Tensor, made: Tensor, what: str) -> None:
    """A tensor is [batch, rows, heads · columns] of one with four axes."""
    require(x.rank == 4, f"the {what} have other axes than batch, head, row, column")
    batch, heads, rows, columns = x.shape
    require(isinstance(heads, int) and isinstance(columns, int), f"the heads of the {what} are unknown")
    require(made.shape == (batch, rows, heads * columns), f"the {what} are not joined head by head")


@rule(patterns=[of_joined_heads])
def attention_of_heads(
    g: Graph,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keys: Tensor,
    values: Tensor,
    attributes: dict[str, Any],
    bias: Tensor | None = None,
) -> Any:
    """Give MultiHeadAttention its keys and values as heads, where they come so: from a cache or a rotary embedding.

    What: MultiHeadAttention takes keys and values of [batch, heads, rows, columns] too, so that nothing is moved.
    Numerics: none.
    """
    own = attributes["num_heads"]
    require(k.rank == 4 and k.shape[1] == own, f"the attention has {own} heads, and the keys are joined from others")
    joins_heads(k, keys, "keys")
    joins_heads(v, values, "values")
    return g.ms_multi_head_attention(q, k, v, None, None, bias, **attributes)


def between_layouts(g: Graph, x: Tensor, places: Tensor, cos: Tensor, sin: Tensor, **attributes: Any) -> Tensor:
    """RotaryEmbedding of heads that were joined before, and are again behind it."""
    heads = g.capture("heads", g.transpose(g.capture("split", reshaped(g, x)), perm=HEADS_FIRST))
    turned = g.ms_rotary_embedding(heads, places, cos, sin, **attributes)
    return g.capture("y", joined(g, turned))


@rule(patterns=[between_layouts])
def rotary_of_rows(
    g: Graph, x: Tensor, heads: Tensor, y: Tensor, places: Tensor, cos: Tensor, sin: Tensor, attributes: dict[str, Any]
) -> Tensor:
    """Let RotaryEmbedding work on joined heads, where they are joined before and behind it.

    What: RotaryEmbedding takes [batch, rows, heads · columns] too, so that nothing is moved.
    Numerics: none.
    """
    joins_heads(heads, x, "numbers")
    require(y.shape == x.shape, "the heads are joined otherwise than they were split")
    return g.ms_rotary_embedding(x, places, cos, sin, **{**attributes, "num_heads": heads.shape[1]})
