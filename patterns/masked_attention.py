"""Attention whose scores a condition hides: softmax(where(condition, scale · q·kᵀ, low))·v."""

from surgeon import Graph, Tensor, rule
from ._attention import NON_FINITE, Core, fused, has_heads
from ._scores import scores, weighted
from ._standard import standard

DIFFERS = {"non_finite": NON_FINITE, "extreme": "hidden keys stay hidden where all others have lower scores than they"}


def by_condition(g: Graph, m: Core) -> Tensor:
    """A low number in the place of hidden scores, to which masks may have been added before and after."""
    cold = g.optional(g.add(scores(g, m, m.kt), m.mask))
    seen = g.any_of(g.where(m.kept, cold, m.low), g.where(m.hidden, m.low, cold))
    return weighted(g, m, g.optional(g.add(seen, m.second)), m.v)


@rule(patterns=[by_condition], conditions=[has_heads], differs=DIFFERS)
def masked_attention(g: Graph, m: Core) -> Tensor:
    """Fuse an attention whose scores a condition hides into MultiHeadAttention, or Attention from opset 23 on.

    What: as `attention`, where a condition puts a low number in the place of scores.  The least number of the dtype is
    added to them instead.  In float32 it leaves nothing of a score; in float16 it would, so that queries are set to
    zero where the condition hides all keys, unless the graph shows that it never does.  Where a mask is added as well,
    and the number is one beside which scores count, a row that both hide could not be kept as it is: nothing is done.
    Numerics: rounding only, for scores above the low number.
    """
    return fused(g, m)


@masked_attention.on("onnx", opset=23)
def _(g: Graph, m: Core) -> Tensor:
    return standard(g, m)
