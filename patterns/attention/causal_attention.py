"""Attention whose mask hides only the future, which an attribute can say, or hides nothing."""

from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require, rule
from ._attention_inputs import SHORT_MASK, covers_all_keys
from ._emit_ort import DIFFERS
from ._fused_attention import FusedAttention, group_query, multi_head, onnx_attention, ort_attention, without_mask
from ._masks import MASKING_THRESHOLD

HIDDEN = {**DIFFERS, "extreme": "a score beside which the mask's number is small is hidden too"}


class Masked(FusedAttention):
    """Attention with a mask that is added, or with ONNX's own a condition."""

    bias: Tensor


def alone(g: Graph, m: Masked) -> Any:
    """What an attention with a mask makes, ONNX's own without a past."""
    return g.any_of(multi_head(g, m, m.bias)[0], group_query(g, m, m.bias)[0], onnx_attention(g, m))


def with_present(g: Graph, m: Masked) -> Any:
    """The same, and the keys and values that the next step starts with."""
    return [g.any_of(*made) for made in zip(multi_head(g, m, m.bias), group_query(g, m, m.bias), strict=True)]


def hides_the_future(m: Masked) -> None:
    """Row i of the queries sees the keys up to i, or up to i behind the past, and no others."""
    found = m.bias.choice
    require(found is not None, "the mask depends on more than the places of rows and keys (padding?), so it stays")
    require(len(found.bounds) < 2, "the mask hides more than the future, such as what is long past, so it stays")
    is_condition = found.inside.dtype == np.bool_
    shows = is_condition  # True in a condition, 0 in what is added
    choice = found if not found.bounds or found.inside == shows else found.opposite
    low = choice.outside
    require(is_condition or low < MASKING_THRESHOLD, f"{low} added to a score hides nothing")
    steps = [list(bound.strides) for bound in choice.bounds]
    is_diagonal = bool(steps) and not any(steps[0][:-2]) and steps[0][-2:] == [1, -1]
    require(choice.inside == shows and is_diagonal, "the mask does not divide the keys at a diagonal")
    start = m.past["past_key"].shape[2] if m.past else 0
    require(choice.bounds[0].offset == start, "the mask's diagonal does not begin behind the past, where the op's does")


def has_keys_for_rows(m: Masked) -> None:
    """As many keys as queries, not counting a past: ONNX Runtime's kernels put the diagonal elsewhere for others."""
    if m.onnx_output is not None:
        return
    require(m.q.rank == 3 and m.k.rank in (3, 4), "the axes of queries or keys are not known")
    require(m.q.shape[1] == m.k.shape[-2], "there are more keys, or fewer, than queries")


@rule(patterns=[alone, with_present], conditions=[has_keys_for_rows, hides_the_future], target="any", differs=HIDDEN)
def causal_attention(g: Graph, m: Masked) -> Any:
    """Let an attention hide the future by itself, where that is all that a mask does.

    What: MultiHeadAttention, GroupQueryAttention or Attention whose mask is 0 for the keys up to a row's own place, and
    very low for those behind it.  Behind a past the diagonal begins there.
    Numerics: rounding only, for finite numbers.
    """
    return without_mask(g, m, is_causal=True)


def with_projections(g: Graph, m: Masked) -> Any:
    """Attention with the projections in it, and a mask."""
    return ort_attention(g, m, m.bias)


def hides_nothing(m: Masked) -> None:
    """The mask is 0 for every key, or true."""
    found = m.bias.choice
    require(found is not None and found.is_uniform, "the mask is not known to be the same for all keys")
    require(bool(found.inside) if found.inside.dtype == np.bool_ else found.inside == 0, "the mask is not 0")
    require(m.onnx_output is None or covers_all_keys(m.bias, m.k), SHORT_MASK)


@rule(patterns=[alone, with_present, with_projections], conditions=[hides_nothing], target="any")
def no_op_mask(g: Graph, m: Masked) -> Any:
    """Take a mask that hides nothing from an attention, as exporters make of images, or of texts without padding.

    What: MultiHeadAttention, GroupQueryAttention or either Attention whose mask is 0 everywhere, or true.
    Numerics: none, for finite numbers.
    """
    return without_mask(g, m, is_causal=m.is_causal and m.onnx_output is not None)
