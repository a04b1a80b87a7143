"""Attention that hides no row whole: NaN of an empty softmax need not be looked for behind it."""

from typing import Any

from surgeon import Graph, Tensor, rule
from ._fused_attention import FusedAttention, group_query, multi_head, ort_attention, without_mask

DIFFERS = {
    "non_finite": "what an infinity or NaN makes of a row is no longer set to zero",
    "extreme": "NaN of scores past the largest number of the dtype is no longer set to zero",
}


def alone(g: Graph, m: FusedAttention) -> Tensor:
    """Attention by an op of ONNX Runtime's without a mask."""
    return g.nan_to_zero(g.any_of(multi_head(g, m)[0], group_query(g, m)[0], ort_attention(g, m)))


def behind_a_past(g: Graph, m: FusedAttention) -> tuple[Tensor, ...]:
    """MultiHeadAttention without a mask, and the keys and values that the next step starts with."""
    made, *present = multi_head(g, m)
    return g.nan_to_zero(made), *present


@rule(patterns=[alone, behind_a_past], differs=DIFFERS)
def attention_nan_guard(g: Graph, m: FusedAttention) -> Any:
    """Take out the search for NaN behind an attention without a mask, or with none but the future hidden.

    What: torch sets rows to zero of which all keys are hidden; where each row sees a key there are none.
    Numerics: none, for finite numbers.
    """
    return without_mask(g, m)
