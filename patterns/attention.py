"""Attention (Vaswani et al., arXiv:1706.03762): softmax(scale · q·kᵀ + mask)·v, for several heads."""

from surgeon import Graph, Match, Tensor, require, rule
from ._attention import NON_FINITE, fused, has_heads, scores, weighted
from ._attention_nodes import is_node, of_onnx, of_runtime
from ._attention_written import as_onnx, in_parts
from ._standard import standard


def core(
    g: Graph,
    q: Tensor,
    kt: Tensor,
    v: Tensor,
    mask: Tensor,
    second: Tensor,
    left: float,
    right: float,
    scale: float,
    cap: float,
    wide: int,
) -> Tensor:
    """softmax(scale · q·kᵀ + mask)·v."""
    cold = g.maybe_wider(scores(g, q, kt, left, right, scale, cap))
    return weighted(g, g.any_of(g.add(cold, mask, second), g.add(cold, mask), cold), v, wide)


def is_of_heads(match: Match) -> None:
    """An attention in parts has axes for batch, heads, rows and columns."""
    if not is_node(match):
        has_heads(match["q"], match["kt"], match["v"])


@rule(patterns=[core], conditions=[is_of_heads], differs={"non_finite": NON_FINITE}, form_patterns=[of_runtime])
def attention(g: Graph, match: Match) -> Tensor:
    """Fuse the core of an attention into MultiHeadAttention, or Attention from opset 23 on.

    What: softmax(scale · q·kᵀ + mask)·v for q, k, v of [batch, heads, rows, columns].  The scale may stand on q, on k,
    on both or on the product, and the scores may be capped.  Around the node stand the transposes and reshapes that
    its layout wants; the group `cleanup` lets them cancel with what splits and joins heads.  For target onnx, the ops
    of ONNX Runtime without a past become Attention too, its Attention with the projections in it among them; for target
    decomposed, all of these become primitives.
    Numerics: rounding only, for finite numbers; primitives compute half precision in float32.
    """
    require(not is_node(match), "Attention of ONNX is not written as an op of ONNX Runtime's own")
    return fused(g, match)


@attention.on("onnx", opset=23, patterns=[of_onnx])
def _(g: Graph, match: Match) -> Tensor:
    return as_onnx(g, match) if is_node(match) else standard(g, match)


@attention.on("decomposed")
def _(g: Graph, match: Match) -> Tensor:
    require(is_node(match), "it is in parts already")
    return in_parts(g, match)
