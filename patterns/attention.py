"""Attention (Vaswani et al., arXiv:1706.03762): softmax(scale · q·kᵀ + mask)·v, for several heads."""

from typing import cast

from surgeon import Captures, Graph, Tensor, require, rule
from ._attention import NON_FINITE, Core, fused, has_heads
from ._attention_written import as_onnx, in_parts
from ._nodes import Whole, of_groups, of_multi_head, of_onnx, of_projections
from ._scores import masked, weighted
from ._standard import standard


def core(g: Graph, m: Core) -> Tensor:
    """softmax(scale · q·kᵀ + mask)·v."""
    return weighted(g, m, masked(g, m, m.kt), m.v)


def is_of_heads(m: Captures) -> None:
    """An attention in parts has axes for batch, heads, rows and columns."""
    if isinstance(m, Core):
        has_heads(m)


@rule(
    patterns=[core],
    conditions=[is_of_heads],
    differs={"non_finite": NON_FINITE},
    form_patterns=[of_multi_head, of_groups, of_projections],
)
def attention(g: Graph, m: Captures) -> Tensor:
    """Fuse the core of an attention into MultiHeadAttention, or Attention from opset 23 on.

    What: softmax(scale · q·kᵀ + mask)·v for q, k, v of [batch, heads, rows, columns].  The scale may stand on q, on k,
    on both or on the product, and the scores may be capped.  Around the node stand the transposes and reshapes that
    its layout wants; the group `cleanup` lets them cancel with what splits and joins heads.  For target onnx, the ops
    of ONNX Runtime without a past become Attention too, its Attention with the projections in it among them; for target
    decomposed, all of these become primitives.
    Numerics: rounding only, for finite numbers; primitives compute half precision in float32.
    TensorRT: Attention is its attention layer, which NVIDIA recommends over primitives; q and k come to it times the
    root of the scale each, as it wants them for their digits ("Fused Attention" in its documentation).
    """
    require(isinstance(m, Core), "Attention of ONNX is not written as an op of ONNX Runtime's own")
    return fused(g, cast(Core, m))


@attention.on("onnx", opset=23, patterns=[of_onnx])
def _(g: Graph, m: Captures) -> Tensor:
    return standard(g, m) if isinstance(m, Core) else as_onnx(g, cast(Whole, m))


@attention.on("decomposed")
def _(g: Graph, m: Captures) -> Tensor:
    require(not isinstance(m, Core), "it is in parts already")
    return in_parts(g, cast(Whole, m))
