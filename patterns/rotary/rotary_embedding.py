"""Rotary position embedding (Su et al., arXiv:2104.09864): halves of a head, or neighbours, turned by angles."""

from typing import cast

from surgeon import Captures, Graph, Tensor, require, rule
from ._decomposed_rotary import Neighbours, NeighboursAsHalves, Rotary, by_formulas, by_matrices, by_tables
from ._emit_rotary import runtimes, standard, turned
from ._fused_rotary import Turning, as_onnx, in_parts, of_onnx, of_runtime


def of_halves(g: Graph, m: Rotary) -> Tensor:
    """a · cos − b · sin before b · cos + a · sin, for the halves a, b of a head; or x · cos + (−b before a) · sin."""
    return g.any_of(by_formulas(g, m), by_tables(g, m), by_tables(g, m, of_base=True))


def of_neighbours(g: Graph, m: Neighbours) -> Tensor:
    """The same beside each other, for neighbours, perhaps as complex numbers; heads may be split at once into pairs."""
    forms = by_formulas(g, m), by_formulas(g, m, of_base=True), by_matrices(g, m), by_tables(g, m)
    return g.any_of(*forms, by_tables(g, m, of_base=True))


def of_sorted_neighbours(g: Graph, m: NeighboursAsHalves) -> Tensor:
    """The same for neighbours that become halves, as DeepSeek has it."""
    return by_formulas(g, m)


@rule(patterns=[of_halves, of_neighbours, of_sorted_neighbours], form_patterns=[of_runtime])
def rotary_embedding(g: Graph, m: Captures) -> Tensor:
    """Fuse a rotary embedding into one RotaryEmbedding node.

    What: for the halves a, b of the last axis of [batch, head, row, column], or for each pair of neighbours there:
    a · cos − b · sin and b · cos + a · sin, each by its formula, or as x · cos + turned(x) · sin; the sines may have
    the signs.  The heads may stand behind the rows.  For target onnx, the op of ONNX Runtime becomes RotaryEmbedding
    too; for target decomposed, both become primitives.
    Numerics: rounding only.
    """
    require(isinstance(m, Rotary), "RotaryEmbedding of ONNX is not written as an op of ONNX Runtime's own")
    return turned(g, cast(Rotary, m), runtimes)


@rotary_embedding.on("onnx", opset=23, patterns=[of_onnx])
def _(g: Graph, m: Captures) -> Tensor:
    return turned(g, m, standard) if isinstance(m, Rotary) else as_onnx(g, cast(Turning, m))


@rotary_embedding.on("decomposed")
def _(g: Graph, m: Captures) -> Tensor:
    require(not isinstance(m, Rotary), "it is in parts already")
    return in_parts(g, cast(Turning, m))
