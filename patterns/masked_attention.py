"""Attention whose scores a condition hides: softmax(where(condition, scale · q·kᵀ, low))·v."""

from surgeon import Graph, Match, Tensor, rule
from ._attention import NON_FINITE, fused, has_heads, scores, weighted
from ._standard import standard

DIFFERS = {"non_finite": NON_FINITE, "extreme": "hidden keys stay hidden where all others have lower scores than they"}


def by_condition(
    g: Graph,
    q: Tensor,
    kt: Tensor,
    v: Tensor,
    mask: Tensor,
    second: Tensor,
    kept: Tensor,
    hidden: Tensor,
    low: float,
    left: float,
    right: float,
    scale: float,
    cap: float,
    wide: int,
) -> Tensor:
    """A low number in the place of hidden scores, to which masks may have been added before and after."""
    plain = g.maybe_wider(scores(g, q, kt, left, right, scale, cap))
    cold = g.any_of(g.add(plain, mask), plain)
    seen = g.any_of(g.where(kept, cold, low), g.where(hidden, low, cold))
    return weighted(g, g.any_of(g.add(seen, second), seen), v, wide)


@rule(patterns=[by_condition], conditions=[has_heads], differs=DIFFERS)
def masked_attention(g: Graph, match: Match) -> Tensor:
    """Fuse an attention whose scores a condition hides into MultiHeadAttention, or Attention from opset 23 on.

    What: as `attention`, where a condition puts a low number in the place of scores.  The least number of the dtype is
    added to them instead.  In float32 it leaves nothing of a score; in float16 it would, so that queries are set to
    zero where the condition hides all keys, unless the graph shows that it never does.  Where a mask is added as well,
    and the number is one beside which scores count, a row that both hide could not be kept as it is: nothing is done.
    Numerics: rounding only, for scores above the low number.
    """
    return fused(g, match)


@masked_attention.on("onnx", opset=23)
def _(g: Graph, match: Match) -> Tensor:
    return standard(g, match)
