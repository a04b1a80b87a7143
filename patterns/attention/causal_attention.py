"""Attention with a mask that hides only the future, for which an attribute suffices, or that hides nothing."""

from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require, rule
from ._attention_inputs import SHORT_MASK, covers_all_keys
from ._emit_ort import DIFFERS
from ._fused_attention import FusedAttention, group_query, multi_head, onnx_attention, ort_attention, without_mask
from ._masks import MASKING_THRESHOLD

HIDDEN = {**DIFFERS, "extreme": "a score is hidden too if the number of the mask is small compared with it"}


class Masked(FusedAttention):
    """Attention with a mask that is added, or with a boolean mask of Attention (ONNX)."""

    bias: Tensor


def alone(g: Graph, m: Masked) -> Any:
    """The output of an attention with a mask.  Attention (ONNX) has no past."""
    return g.any_of(multi_head(g, m, m.bias)[0], group_query(g, m, m.bias)[0], onnx_attention(g, m))


def with_present(g: Graph, m: Masked) -> Any:
    """The same, with the keys and values for the next step."""
    return [g.any_of(*made) for made in zip(multi_head(g, m, m.bias), group_query(g, m, m.bias), strict=True)]


def hides_the_future(m: Masked) -> None:
    """Require that row i of the queries sees only the keys up to i, or up to i after the past."""
    found = m.bias.choice
    require(found is not None, "the mask depends on more than the positions of rows and keys (padding?)")
    require(len(found.bounds) < 2, "the mask hides more than the future (a window?)")
    is_condition = found.inside.dtype == np.bool_
    shows = is_condition  # True in a condition, 0 in a mask that is added
    choice = found if not found.bounds or found.inside == shows else found.opposite
    low = choice.outside
    require(is_condition or low < MASKING_THRESHOLD, f"{low} is too high to hide a score")
    steps = [list(bound.strides) for bound in choice.bounds]
    is_diagonal = bool(steps) and not any(steps[0][:-2]) and steps[0][-2:] == [1, -1]
    require(choice.inside == shows and is_diagonal, "the mask must divide the keys at a diagonal")
    start = m.past["past_key"].shape[2] if m.past else 0
    require(choice.bounds[0].offset == start, "the diagonal of the mask must begin after the past, as in the op")


def has_keys_for_rows(m: Masked) -> None:
    """Require as many keys as queries, without a past: otherwise ONNX Runtime places the diagonal elsewhere."""
    if m.onnx_output is not None:
        return
    require(m.q.rank == 3 and m.k.rank in (3, 4), "the axes of queries or keys are unknown")
    require(m.q.shape[1] == m.k.shape[-2], "the number of keys must equal the number of queries")


@rule(patterns=[alone, with_present], conditions=[has_keys_for_rows, hides_the_future], target="any", differs=HIDDEN)
def causal_attention(g: Graph, m: Masked) -> Any:
    """Replace a mask that hides only the future by the causal attribute of the attention.

    What: MultiHeadAttention, GroupQueryAttention or Attention with a mask that is 0 for the keys up to the position of
    the row and very low for later keys.  With a past, the diagonal begins after it.
    Numerics: rounding only for finite numbers.
    """
    return without_mask(g, m, is_causal=True)


def with_projections(g: Graph, m: Masked) -> Any:
    """Attention with a mask, including the projections."""
    return ort_attention(g, m, m.bias)


def hides_nothing(m: Masked) -> None:
    """Require a mask that is 0 or true for every key."""
    found = m.bias.choice
    require(found is not None and found.is_uniform, "the mask must be the same for all keys")
    require(bool(found.inside) if found.inside.dtype == np.bool_ else found.inside == 0, "the mask is not 0")
    require(m.onnx_output is None or covers_all_keys(m.bias, m.k), SHORT_MASK)


@rule(patterns=[alone, with_present, with_projections], conditions=[hides_nothing], target="any")
def no_op_mask(g: Graph, m: Masked) -> Any:
    """Remove a mask that hides nothing from an attention.  Exporters write it for images, or for texts without padding.

    What: MultiHeadAttention, GroupQueryAttention or either Attention op with a mask that is 0 or true everywhere.
    Numerics: none for finite numbers.
    """
    return without_mask(g, m, is_causal=m.is_causal and m.onnx_output is not None)
