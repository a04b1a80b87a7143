"""Attention of heads that are moved to the front only for it."""

from typing import Any

from surgeon import Graph, Match, Tensor, require, rule
from ._attention import without_nan
from ._layouts import HEADS_FIRST

TENSORRT = "TensorRT takes queries, keys and values with four axes only"


def moved(g: Graph, x: Tensor, cos: Tensor, sin: Tensor, neighbours: int, part: int, number: int) -> Tensor:
    """[batch, rows, heads, columns] with the heads in front, perhaps turned by a rotary embedding."""
    heads = g.transpose(x, perm=HEADS_FIRST)
    attributes = {"interleaved": neighbours, "rotary_embedding_dim": part}
    forms = [g.rotary_embedding(heads, cos, sin, **attributes)]
    forms.append(g.rotary_embedding(heads, cos, sin, num_heads=number, **attributes))
    return g.any_of(heads, *forms)


def of_moved_heads(
    g: Graph,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_cos: Tensor,
    q_sin: Tensor,
    q_neighbours: int,
    q_part: int,
    q_number: int,
    k_cos: Tensor,
    k_sin: Tensor,
    k_neighbours: int,
    k_part: int,
    k_number: int,
    mask: Tensor | None = None,
    **attributes: Any,
) -> Tensor:
    """Attention of heads that are moved to the front, and back behind it."""
    ours = moved(g, q, q_cos, q_sin, q_neighbours, q_part, q_number)
    keys = moved(g, k, k_cos, k_sin, k_neighbours, k_part, k_number)
    made = g.attention(ours, keys, g.transpose(v, perm=HEADS_FIRST), mask, **attributes)
    guarded = g.where(g.isnan(made), 0.0, g.capture("guarded", made))
    return g.transpose(g.any_of(guarded, made), perm=HEADS_FIRST)


def rows_of(g: Graph, match: Match, name: str) -> Tensor:
    """[batch, rows, heads · columns], turned by the rotary embedding that was found."""
    x = match[name]
    require(x.rank == 4, "the heads have other axes than batch, row, head, column")
    heads, columns = x.shape[2:]
    require(isinstance(heads, int) and isinstance(columns, int), "the number of heads, or their size, is unknown")
    rows: Tensor = g.reshape(x, [0, 0, heads * columns])
    if f"{name}_cos" not in match.bound:
        return rows
    attributes = {"interleaved": match[f"{name}_neighbours"], "num_heads": heads}
    if match[f"{name}_part"]:
        attributes["rotary_embedding_dim"] = match[f"{name}_part"]
    turned: Tensor = g.rotary_embedding(rows, match[f"{name}_cos"], match[f"{name}_sin"], **attributes)
    return turned


@rule(patterns=[of_moved_heads], target="onnx", opset=23, unsuited={"tensorrt": TENSORRT})
def attention_of_rows(g: Graph, match: Match, q: Tensor, k: Tensor, v: Tensor, attributes: dict[str, Any]) -> Tensor:
    """Let Attention, and the rotary embeddings in front of it, take heads beside each other, where they come so.

    What: Attention and RotaryEmbedding take [batch, rows, heads · columns] too, so that no heads are moved to the front
    and back.
    Numerics: none.
    """
    ours, keys, values = (rows_of(g, match, name) for name in ("q", "k", "v"))
    numbers = {"q_num_heads": q.shape[2], "kv_num_heads": k.shape[2]}
    mask = match["mask"] if "mask" in match.bound else None
    made: Tensor = g.attention(ours, keys, values, mask, **{**attributes, **numbers})
    if "guarded" in match.bound:
        made = without_nan(g, made)
    return g.reshape(made, [0, 0, q.shape[2], v.shape[3]])
