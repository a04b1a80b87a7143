"""Rotary position embedding (Su et al., arXiv:2104.09864), one half of a head turned against the other."""

from surgeon import Graph, Tensor, rule
from ._rotary import Rotary, by_tables
from ._rotary_found import tables
from ._rotary_parts import HALVES
from ._rotary_written import runtimes, standard


def of_halves(g: Graph, m: Rotary) -> Tensor:
    """x · cos + turned(x) · sin."""
    return by_tables(g, m, HALVES)


def of_split_halves(g: Graph, m: Rotary) -> Tensor:
    """The same, where heads and their halves are split from one tensor."""
    return by_tables(g, m, HALVES, of_base=True)


@rule(patterns=[of_halves, of_split_halves])
def rotary_embedding(g: Graph, m: Rotary) -> Tensor:
    """Fuse a rotary embedding into one RotaryEmbedding node.

    What: x · cos + turned(x) · sin over the last axis of [batch, head, row, column], where turned(x) has the second
    half of a head, negated, before the first.  The heads may stand behind the rows.
    Numerics: rounding only.
    """
    return runtimes(g, m, tables(g, m))


@rotary_embedding.on("onnx", opset=23)
def _(g: Graph, m: Rotary) -> Tensor:
    return standard(g, m, tables(g, m))
