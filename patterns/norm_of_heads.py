"""Norms of heads, which are moved in front of the rows for nothing but the norm or a rotary embedding behind it."""

from typing import Any

from surgeon import Captures, Graph, Tensor, dims, require, rule
from ._rotary_nodes import Turning, by_runtime

NORMS = ("LayerNormalization", "SimplifiedLayerNormalization", "RMSNormalization")


class Normed(Turning):
    """Heads x behind the rows, moved to the front and normed there over their columns; and a rotary embedding."""

    x: Tensor = dims("_ _ _ _")
    cos: Tensor | Any = None
    sin: Tensor | Any = None
    scale: Tensor | Any = None
    bias: Tensor | Any = None
    axis: int = -1
    told: dict[str, Any]
    attributes: dict[str, Any] | Any = None


def norms(g: Graph, x: Tensor, *bias: Tensor, scale: Any, told: dict[str, Any]) -> list[Tensor]:
    """Norms of x, with a bias and without."""
    ops = g.layer_normalization, g.simplified_layer_normalization, g.rms_normalization
    return [ops[0](x, scale, *bias, **told), *(norm(x, scale, **told) for norm in ops)]


def moved_back(g: Graph, m: Normed) -> Tensor:
    """Heads behind the rows again."""
    told = {"axis": m.axis, **m.told}
    normed = g.any_of(*norms(g, g.heads_first(m.x), m.bias, scale=m.scale, told=told))
    return g.heads_first(g.any_of(by_runtime(g, m, normed), normed))


@rule(patterns=[moved_back], target="any")
def norm_of_heads(g: Graph, m: Normed) -> Tensor:
    """Norm heads where they stand behind the rows, as they are moved back behind the norm.

    What: a norm of queries or keys over the columns of each head between two transposes, as SD3 has it, and with a
    rotary embedding behind the norm, as Gemma 3 has it, which is moved to the front alone then.
    Numerics: rounding only.
    """
    require(m.axis in (-1, 3), "the norm is over more than the columns of a head")
    (op,) = (node.op for node in m.match.nodes if node.op in NORMS)
    factors = (m.scale,) if m.bias is None else (m.scale, m.bias)
    made: Tensor = g.op(op, m.x, *factors, axis=-1, **m.told)
    return made if m.cos is None else g.heads_first(by_runtime(g, m, g.heads_first(made)))


class Stream(Captures):
    """Heads x behind the rows of one of two streams, which are moved to the front, and perhaps normed."""

    x: Tensor = dims("_ _ _ _")
    scale: Tensor | Any = None
    bias: Tensor | Any = None
    told: dict[str, Any]


class Streams(Captures):
    """Two of them."""

    first: Stream
    second: Stream


def moved_streams(g: Graph, m: Streams) -> Tensor:
    """Heads of two streams, one behind the other, behind the rows again."""
    made = []
    for one in (m.first, m.second):
        heads = g.heads_first(one.x)
        made.append(g.any_of(heads, *norms(g, heads, one.bias, scale=one.scale, told=one.told)))
    return g.heads_first(g.concat(*made, axis=2))


@rule(patterns=[moved_streams], target="any")
def joined_streams(g: Graph, m: Streams) -> Tensor:
    """Join the heads of two streams where they stand behind the rows, as they are moved back there.

    What: queries of an attention over two streams (pictures and text, as SD3 and CogView have it), which are moved to
    the front, perhaps normed, joined, and moved back.
    Numerics: rounding only.
    """
    ops = {node.op for node in m.match.nodes if node.op in NORMS}
    require(len(ops) < 2, "the streams are normed in two ways")
    return g.concat(*(normed(g, one, *ops) for one in (m.first, m.second)), axis=1)


def normed(g: Graph, m: Stream, *op: str) -> Tensor:
    """The heads of a stream where they stand, normed if it is."""
    if m.scale is None:
        return m.x
    require(m.told.get("axis", -1) in (-1, 3), "a norm is over more than the columns of a head")
    factors = (m.scale,) if m.bias is None else (m.scale, m.bias)
    made: Tensor = g.op(*op, m.x, *factors, **{**m.told, "axis": -1})
    return made
