"""Attention (Vaswani et al., arXiv:1706.03762): softmax(scale · q·kᵀ + mask)·v, for several heads."""

from typing import Any, cast

from surgeon import Captures, Graph, Tensor, require, rule
from ._convert_fused import decompose_attention, to_onnx_attention
from ._decomposed_attention import AttentionCore, conditional_scores, masked_scores, weighted_values
from ._emit_onnx import emit_onnx_attention
from ._emit_ort import DIFFERS, emit_ort_attention, is_core_supported
from ._fused_attention import FusedAttention, any_ort_attention, behind_past, behind_past_alone, onnx_attention
from ._masks import MASKING_THRESHOLD, may_mask_other_keys

HIDDEN = {**DIFFERS, "extreme": "hidden keys stay hidden even if all other keys have lower scores"}
PADDED = {**HIDDEN, "hidden_rows": "a row whose keys the condition and the mask all hide has other weights"}


def core(g: Graph, m: AttentionCore) -> Tensor:
    """softmax(scale · q·kᵀ + mask)·v."""
    return weighted_values(g, m, masked_scores(g, m, m.kt), m.v)


NODES = [any_ort_attention, behind_past_alone, behind_past]


@rule(patterns=[core], conditions=[is_core_supported], differs=DIFFERS, form_patterns=NODES)
def attention(g: Graph, m: Captures) -> Tensor:
    """Fuse the core of an attention into MultiHeadAttention, or Attention from opset 23 on.

    What: softmax(scale · q·kᵀ + mask)·v for q, k, v of [batch, heads, rows, columns].  The scale may be on q, on k, on
    both or on the product, and the scores may be capped.  The rule adds the Transposes and Reshapes that the layout of
    the node requires.  In the group `cleanup` they cancel with the nodes that split and join heads.  For target onnx,
    ops of ONNX Runtime become Attention too, including com.microsoft::Attention, which contains the projections.  For
    target decomposed, all these ops become primitives.
    Numerics: rounding only for finite numbers.  Primitives compute half precision in float32.
    TensorRT: Attention becomes one attention layer, which NVIDIA recommends over primitives.  The rule multiplies q and
    k by the root of the scale each, which this layer requires for precision ("Fused Attention" in the TensorRT
    documentation).
    """
    require(isinstance(m, AttentionCore), "Attention (ONNX) is not converted to an op of ONNX Runtime")
    return emit_ort_attention(g, cast(AttentionCore, m))


@attention.on("onnx", opset=23, patterns=[onnx_attention])
def _(g: Graph, m: Captures) -> Any:
    return emit_onnx_attention(g, m) if isinstance(m, AttentionCore) else to_onnx_attention(g, cast(FusedAttention, m))


@attention.on("decomposed")
def _(g: Graph, m: Captures) -> Any:
    require(not isinstance(m, AttentionCore), "it is already decomposed")
    return decompose_attention(g, cast(FusedAttention, m))


def by_condition(g: Graph, m: AttentionCore) -> Tensor:
    """Attention with a condition.

    The weights of hidden scores may become 0 after the softmax, so that a fully hidden row has no weights.
    """
    return weighted_values(g, m, conditional_scores(g, m, m.kt), m.v, has_zeros=True)


def hides_scores(m: AttentionCore) -> None:
    """Require a number that hides scores, and that only weights of hidden scores become 0."""
    require(m.low <= MASKING_THRESHOLD, f"{m.low} is too high to hide a score")
    is_one = m.zero == 0 and (m.kept is None or m.hidden is None) and not may_mask_other_keys(m)
    require(m.zero is None or is_one, "only weights of hidden scores may be replaced, and only by 0")


@rule(patterns=[by_condition], conditions=[is_core_supported, hides_scores], differs=HIDDEN)
def masked_attention(g: Graph, m: AttentionCore) -> Tensor:
    """Fuse an attention with a condition that hides scores into MultiHeadAttention, or Attention from opset 23 on.

    What: as `attention`, but a condition replaces scores by a low number.  The rule adds the least number of the dtype
    to these scores instead.  In float32 this absorbs the scores.  In float16 it does not, so the rule sets queries to
    zero if the condition hides all keys, unless the graph shows that this never happens.  If a mask is added too, and
    the low number does not absorb scores, the rule does not match, because a row that both hide would change.  The
    weights of hidden scores may become 0 after the softmax (ESPnet, WeNet, CPM-Ant).  Then the rule adds −∞, and a row
    without weights gives 0.
    Numerics: rounding only for scores above the low number.
    """
    return emit_ort_attention(g, m)


@masked_attention.on("onnx", opset=23)
def _(g: Graph, m: AttentionCore) -> Tensor:
    return emit_onnx_attention(g, m)


@rule(patterns=[by_condition], conditions=[is_core_supported, hides_scores], differs=PADDED)
def padded_attention(g: Graph, m: AttentionCore) -> Tensor:
    """Fuse an attention with a condition and a mask, although a row that both hide together changes.

    What: as `masked_attention`, for a low number that does not absorb scores, such as the −10,000 of GPT-2 for later
    keys, and a mask of padding that is added.  In a row without a visible key, the graph ranks later keys above
    padding.  The fused node adds the low number to the scores instead of replacing them, so it ranks them by score too.
    Texts that are padded on the left have such rows, in the padding itself.
    Numerics: rounding only for rows with a visible key.
    """
    return emit_ort_attention(g, m.but(changes_hidden_rows=True))


@padded_attention.on("onnx", opset=23)
def _(g: Graph, m: AttentionCore) -> Tensor:
    return emit_onnx_attention(g, m.but(changes_hidden_rows=True))
