"""Norms over the last axes that are one node, for any of their ops."""

from typing import Any

from surgeon import Captures, Graph, Match, Tensor, require

NORMS = ("LayerNormalization", "SimplifiedLayerNormalization", "RMSNormalization")


class NormAttributes(Captures):
    """The scale and the shift of a norm, and its attributes."""

    scale: Tensor | Any = None
    bias: Tensor | Any = None
    settings: dict[str, Any]


def any_norm(g: Graph, m: NormAttributes, x: Tensor) -> Tensor:
    """Match x after any of these norms."""
    ops = g.layer_normalization, g.simplified_layer_normalization, g.rms_normalization
    return g.any_of(ops[0](x, m.scale, m.bias, **m.settings), *(norm(x, m.scale, **m.settings) for norm in ops))


def matched_norm(match: Match) -> str:
    """Return the op of the norm in a match.  Refuse a match with different norms."""
    ops = {node.op for node in match.nodes if node.op in NORMS}
    require(len(ops) == 1, "the match contains norms of two kinds")
    return ops.pop()
