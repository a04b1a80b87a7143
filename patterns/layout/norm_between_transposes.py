"""Heads that are moved before the rows only for a norm, a rotary embedding after it, or a Concat."""

from typing import Any

from surgeon import Captures, Graph, Tensor, dims, require, rule
from ..norms._fused_norms import NormAttributes, any_norm, matched_norm
from ..rotary._fused_rotary import FusedRotary, ort_rotary


class NormedHeads(NormAttributes):
    """Heads x after the rows, moved to the front, and the norm over them there. wide: their dtype there."""

    x: Tensor = dims("_ _ _ _")
    wide: int | Any = None


class NormedRotaryHeads(NormedHeads, FusedRotary):
    """The same with an optional rotary embedding.

    given, within, narrow: the dtypes of the output of the norm, of the rotary embedding, and of the result.
    """

    cos: Tensor | Any = None
    sin: Tensor | Any = None
    attributes: dict[str, Any] | Any = None
    given: int | Any = None
    within: int | Any = None
    narrow: int | Any = None


class Streams(Captures):
    """The heads of two streams."""

    first: NormedHeads
    second: NormedHeads


def write_normed(g: Graph, m: NormedHeads) -> Tensor:
    """Write the norm, if there is one, over the heads in their original layout."""
    if m.scale is None:
        return m.x
    op = matched_norm(m.match)
    require(m.settings.get("axis", -1) in (-1, 3), "the norm must be over only the columns of a head")
    factors = (m.scale,) if m.bias is None else (m.scale, m.bias)
    made: Tensor = g.op(op, g.optional(g.cast(m.x, to=m.wide)), *factors, **{**m.settings, "axis": -1})
    return made


def moved_back(g: Graph, m: NormedRotaryHeads) -> Tensor:
    """Heads that are moved after the rows again."""
    made = any_norm(g, m, g.optional(g.cast(g.heads_first(m.x), to=m.wide)))
    turned = ort_rotary(g, m, g.optional(g.cast(g.optional(g.cast(made, to=m.given)), to=m.within)))
    return g.heads_first(g.optional(g.cast(g.any_of(turned, made), to=m.narrow)))


@rule(patterns=[moved_back], target="any")
def norm_between_transposes(g: Graph, m: NormedRotaryHeads) -> Tensor:
    """Normalise heads in their original layout after the rows, if they are moved back after the norm.

    What: a norm of queries or keys over the columns of each head between two Transposes, as in SD3.  A rotary embedding
    may follow the norm, as in Gemma 3, and then only this is moved to the front.  Half precision may be float32 for all
    or a part of this.
    Numerics: rounding only.
    """
    made = g.optional(g.cast(g.optional(g.cast(write_normed(g, m), to=m.given)), to=m.within))
    made = made if m.cos is None else g.heads_first(ort_rotary(g, m, g.heads_first(made)))
    return g.optional(g.cast(made, to=m.narrow))


def moved_streams(g: Graph, m: Streams) -> Tensor:
    """Heads of two streams, concatenated and moved after the rows again."""
    streams = [(one, g.heads_first(one.x)) for one in (m.first, m.second)]
    return g.heads_first(g.concat(*(g.any_of(heads, any_norm(g, one, heads)) for one, heads in streams), axis=2))


@rule(patterns=[moved_streams], target="any")
def concat_between_transposes(g: Graph, m: Streams) -> Tensor:
    """Concatenate the heads of two streams in their original layout after the rows, if they are moved back there.

    What: queries of an attention over two streams (images and text, as in SD3 and CogView), which are moved to the
    front, optionally normalised, concatenated, and moved back.
    Numerics: rounding only.
    """
    return g.concat(*(write_normed(g, one) for one in (m.first, m.second)), axis=1)
