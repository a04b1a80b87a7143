"""Heads that are moved in front of the rows for nothing but a norm, a rotary embedding behind it, or a join."""

from typing import Any

from surgeon import Captures, Graph, Tensor, dims, require, rule
from ._rotary_nodes import Turning, by_runtime

NORMS = ("LayerNormalization", "SimplifiedLayerNormalization", "RMSNormalization")


class Heads(Captures):
    """Heads x behind the rows, moved to the front, and what they are normed by there."""

    x: Tensor = dims("_ _ _ _")
    scale: Tensor | Any = None
    bias: Tensor | Any = None
    told: dict[str, Any]


class Turned(Heads, Turning):
    """The same with a rotary embedding, if there is one."""

    cos: Tensor | Any = None
    sin: Tensor | Any = None
    attributes: dict[str, Any] | Any = None


class Streams(Captures):
    """The heads of two streams."""

    first: Heads
    second: Heads


def normed(g: Graph, m: Heads, heads: Tensor) -> Tensor:
    """Heads behind a norm, as patterns look for it."""
    ops = g.layer_normalization, g.simplified_layer_normalization, g.rms_normalization
    return g.any_of(ops[0](heads, m.scale, m.bias, **m.told), *(norm(heads, m.scale, **m.told) for norm in ops))


def write_normed(g: Graph, m: Heads) -> Tensor:
    """The heads where they stand, normed if they are."""
    if m.scale is None:
        return m.x
    ops = {node.op for node in m.match.nodes if node.op in NORMS}
    require(len(ops) == 1, "there are norms of two kinds")
    require(m.told.get("axis", -1) in (-1, 3), "the norm is over more than the columns of a head")
    factors = (m.scale,) if m.bias is None else (m.scale, m.bias)
    made: Tensor = g.op(*ops, m.x, *factors, **{**m.told, "axis": -1})
    return made


def moved_back(g: Graph, m: Turned) -> Tensor:
    """Heads behind the rows again."""
    made = normed(g, m, g.heads_first(m.x))
    return g.heads_first(g.any_of(by_runtime(g, m, made), made))


@rule(patterns=[moved_back], target="any")
def norm_of_heads(g: Graph, m: Turned) -> Tensor:
    """Norm heads where they stand behind the rows, as they are moved back behind the norm.

    What: a norm of queries or keys over the columns of each head between two transposes, as SD3 has it, and with a
    rotary embedding behind the norm, as Gemma 3 has it, which is moved to the front alone then.
    Numerics: rounding only.
    """
    made = write_normed(g, m)
    return made if m.cos is None else g.heads_first(by_runtime(g, m, g.heads_first(made)))


def moved_streams(g: Graph, m: Streams) -> Tensor:
    """Heads of two streams, one behind the other, behind the rows again."""
    streams = [(one, g.heads_first(one.x)) for one in (m.first, m.second)]
    return g.heads_first(g.concat(*(g.any_of(heads, normed(g, one, heads)) for one, heads in streams), axis=2))


@rule(patterns=[moved_streams], target="any")
def joined_streams(g: Graph, m: Streams) -> Tensor:
    """Join the heads of two streams where they stand behind the rows, as they are moved back there.

    What: queries of an attention over two streams (pictures and text, as SD3 and CogView have it), which are moved to
    the front, perhaps normed, joined, and moved back.
    Numerics: rounding only.
    """
    return g.concat(*(write_normed(g, one) for one in (m.first, m.second)), axis=1)
