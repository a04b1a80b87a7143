"""Rotary position embedding (Su et al., arXiv:2104.09864), each even number turned against the odd one behind it."""

from surgeon import Graph, Tensor, rule
from ._rotary import Rotary, by_formulas, by_tables
from ._rotary_found import tables
from ._rotary_parts import NEIGHBOURS
from ._rotary_written import runtimes, standard


def of_neighbours(g: Graph, m: Rotary) -> Tensor:
    """x · cos + turned(x) · sin."""
    return by_tables(g, m, NEIGHBOURS)


def by_pairs(g: Graph, m: Rotary) -> Tensor:
    """Even and odd numbers, each turned by its own formula, from tables of half a head."""
    return by_formulas(g, m, NEIGHBOURS)


def of_split_neighbours(g: Graph, m: Rotary) -> Tensor:
    """x · cos + turned(x) · sin, where heads and their pairs are split from one tensor."""
    return by_tables(g, m, NEIGHBOURS, of_base=True)


def by_split_pairs(g: Graph, m: Rotary) -> Tensor:
    """Even and odd numbers, each turned by its own formula, where heads are split at once into pairs."""
    return by_formulas(g, m, NEIGHBOURS, of_base=True, has_x=False)


@rule(patterns=[by_pairs, of_neighbours, of_split_neighbours, by_split_pairs])
def rotary_interleaved(g: Graph, m: Rotary) -> Tensor:
    """Fuse a rotary embedding of neighbours into one RotaryEmbedding node.

    What: for each pair of neighbours a, b in the last axis of [batch, head, row, column]: a · cos − b · sin and
    b · cos + a · sin, pair by pair, or as x · cos + turned(x) · sin, where turned(x) has −b, a in the place of a, b.
    The heads may stand behind the rows.
    Numerics: rounding only.
    """
    return runtimes(g, m, tables(g, m, NEIGHBOURS), interleaved=1)


@rotary_interleaved.on("onnx", opset=23)
def _(g: Graph, m: Rotary) -> Tensor:
    return standard(g, m, tables(g, m, NEIGHBOURS), interleaved=1)
