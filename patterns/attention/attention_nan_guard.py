"""Attention without fully hidden rows, which needs no NaN guard."""

from typing import Any

from surgeon import Graph, Tensor, rule
from ._fused_attention import FusedAttention, group_query, multi_head, ort_attention, without_mask

DIFFERS = {
    "non_finite": "the NaN of an infinity or NaN in a row no longer becomes zero",
    "extreme": "the NaN of scores above the largest number of the dtype no longer becomes zero",
}


def alone(g: Graph, m: FusedAttention) -> Tensor:
    """Attention by an op of ONNX Runtime without a mask."""
    return g.nan_to_zero(g.any_of(multi_head(g, m)[0], group_query(g, m)[0], ort_attention(g, m)))


def behind_a_past(g: Graph, m: FusedAttention) -> tuple[Tensor, ...]:
    """MultiHeadAttention without a mask, and the keys and values for the next step."""
    made, *present = multi_head(g, m)
    return g.nan_to_zero(made), *present


@rule(patterns=[alone, behind_a_past], differs=DIFFERS)
def attention_nan_guard(g: Graph, m: FusedAttention) -> Any:
    """Remove the NaN guard after an attention that has no mask, or a mask that hides only the future.

    What: torch sets a row to zero if all its keys are hidden.  The rule matches only if each row sees a key.
    Numerics: none for finite numbers.
    """
    return without_mask(g, m)
