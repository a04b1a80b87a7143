"""Norms of heads, which are moved in front of the rows for nothing but the norm or a rotary embedding behind it."""

from typing import Any

from surgeon import Graph, Tensor, dims, require, rule
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


def moved_back(g: Graph, m: Normed) -> Tensor:
    """Heads behind the rows again."""
    heads, told = g.heads_first(m.x), {"axis": m.axis, **m.told}
    norms = g.layer_normalization, g.simplified_layer_normalization, g.rms_normalization
    normed = g.any_of(norms[0](heads, m.scale, m.bias, **told), *(norm(heads, m.scale, **told) for norm in norms))
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
