"""Rotary position embedding (Su et al., arXiv:2104.09864), each half of a head computed by its own formula."""

from surgeon import Graph, Tensor, require, rule
from ._rotary import Rotary, by_formulas
from ._rotary_found import tables
from ._rotary_nodes import Node, as_onnx, in_parts, of_onnx, of_runtime
from ._rotary_parts import HALVES, NEIGHBOURS
from ._rotary_written import runtimes, standard


class Turned(Rotary, Node):
    """What is turned by its halves (x), or by one node."""


def by_halves(g: Graph, m: Turned) -> Tensor:
    """a · cos − b · sin before b · cos + a · sin, for the halves a, b of a head."""
    return by_formulas(g, m, HALVES)


def by_pairs(g: Graph, m: Turned) -> Tensor:
    """The same, for the neighbours a, b, which become halves, as DeepSeek has it."""
    return by_formulas(g, m, NEIGHBOURS, is_moved=True)


@rule(patterns=[by_halves, by_pairs], form_patterns=[of_runtime])
def rotary_halves(g: Graph, m: Turned) -> Tensor:
    """Fuse a rotary embedding whose halves are computed apart into one RotaryEmbedding node.

    What: for the halves a, b of the last axis of [batch, head, row, column]: a · cos − b · sin, and b · cos + a · sin
    behind it.  For target onnx, the op of ONNX Runtime becomes RotaryEmbedding too; for target decomposed, both become
    primitives, those of neighbours and of a part of each head as well.
    Numerics: rounding only.
    """
    require(m.node is None, "RotaryEmbedding of ONNX is not written as an op of ONNX Runtime's own")
    return runtimes(g, m, tables(g, m))


@rotary_halves.on("onnx", opset=23, patterns=[of_onnx])
def _(g: Graph, m: Turned) -> Tensor:
    return as_onnx(g, m) if m.node is not None else standard(g, m, tables(g, m))


@rotary_halves.on("decomposed")
def _(g: Graph, m: Turned) -> Tensor:
    require(m.node is not None, "it is in parts already")
    return in_parts(g, m)
