"""Attention (Vaswani et al., arXiv:1706.03762): softmax(scale · q·kᵀ + mask)·v, for several heads."""

from typing import Any, cast

from surgeon import Captures, Graph, Tensor, require, rule
from .._common.where_masks import where_masked
from ._convert_fused import decompose_attention, to_onnx_attention
from ._decomposed_attention import AttentionCore, masked_scores, scores, weighted_values
from ._emit_onnx import emit_onnx_attention
from ._emit_ort import DIFFERS, emit_ort_attention, is_core_supported
from ._fused_attention import FusedAttention, any_ort_attention, behind_past, behind_past_alone, onnx_attention
from ._masks import MASKING_THRESHOLD, may_mask_other_keys

HIDDEN = {**DIFFERS, "extreme": "hidden keys stay hidden where all others have lower scores than they"}


def core(g: Graph, m: AttentionCore) -> Tensor:
    """softmax(scale · q·kᵀ + mask)·v."""
    return weighted_values(g, m, masked_scores(g, m, m.kt), m.v)


NODES = [any_ort_attention, behind_past_alone, behind_past]


@rule(patterns=[core], conditions=[is_core_supported], differs=DIFFERS, form_patterns=NODES)
def attention(g: Graph, m: Captures) -> Tensor:
    """Fuse the core of an attention into MultiHeadAttention, or Attention from opset 23 on.

    What: softmax(scale · q·kᵀ + mask)·v for q, k, v of [batch, heads, rows, columns].  The scale may stand on q, on k,
    on both or on the product, and the scores may be capped.  Around the node stand the transposes and reshapes that
    its layout wants; the group `cleanup` lets them cancel with what splits and joins heads.  For target onnx, the ops
    of ONNX Runtime become Attention too, its Attention with the projections in it among them; for target
    decomposed, all of these become primitives.
    Numerics: rounding only, for finite numbers; primitives compute half precision in float32.
    TensorRT: Attention is its attention layer, which NVIDIA recommends over primitives; q and k come to it times the
    root of the scale each, as it wants them for their digits ("Fused Attention" in its documentation).
    """
    require(isinstance(m, AttentionCore), "Attention of ONNX is not written as an op of ONNX Runtime's own")
    return emit_ort_attention(g, cast(AttentionCore, m))


@attention.on("onnx", opset=23, patterns=[onnx_attention])
def _(g: Graph, m: Captures) -> Any:
    return emit_onnx_attention(g, m) if isinstance(m, AttentionCore) else to_onnx_attention(g, cast(FusedAttention, m))


@attention.on("decomposed")
def _(g: Graph, m: Captures) -> Any:
    require(not isinstance(m, AttentionCore), "it is in parts already")
    return decompose_attention(g, cast(FusedAttention, m))


def by_condition(g: Graph, m: AttentionCore) -> Tensor:
    """A low number in the place of hidden scores, to which masks may have been added before and after.

    Their weights may become 0 once more: a row that is all hidden is left without any.
    """
    cold = g.optional(g.add(scores(g, m, m.kt), m.mask))
    return weighted_values(g, m, g.optional(g.add(where_masked(g, m, cold, m.low), m.second)), m.v, has_zeros=True)


def hides_scores(m: AttentionCore) -> None:
    """The number hides scores, and the weights that become 0 are theirs."""
    require(m.low <= MASKING_THRESHOLD, f"{m.low} in the place of a score hides nothing")
    is_one = m.zero == 0 and (m.kept is None or m.hidden is None) and not may_mask_other_keys(m)
    require(m.zero is None or is_one, "weights of others become 0, or to another number")


@rule(patterns=[by_condition], conditions=[is_core_supported, hides_scores], differs=HIDDEN)
def masked_attention(g: Graph, m: AttentionCore) -> Tensor:
    """Fuse an attention whose scores a condition hides into MultiHeadAttention, or Attention from opset 23 on.

    What: as `attention`, where a condition puts a low number in the place of scores.  The least number of the dtype is
    added to them instead.  In float32 it leaves nothing of a score; in float16 it would, so that queries are set to
    zero where the condition hides all keys, unless the graph shows that it never does.  Where a mask is added as well,
    and the number is one beside which scores count, a row that both hide could not be kept as it is: nothing is done.
    The weights of hidden scores may become 0 once more (ESPnet, WeNet, CPM-Ant): −∞ is added then; what a row without
    weights gives is 0.
    Numerics: rounding only, for scores above the low number.
    """
    return emit_ort_attention(g, m)


@masked_attention.on("onnx", opset=23)
def _(g: Graph, m: AttentionCore) -> Tensor:
    return emit_onnx_attention(g, m)
