"""Rotary position embedding (Su et al., arXiv:2104.09864), each half of a head computed by its own formula."""

from typing import Any

from surgeon import Graph, Match, Tensor, require, rule
from ._rotary import Array, of_heads, runtimes, standard, tables
from ._rotary_nodes import as_onnx, in_parts, of_onnx, of_runtime


def is_half(part: Tensor, x: Tensor) -> None:
    """A part has half of the last of four axes, and all of the others."""
    size = of_heads(x)
    require(part.shape == (*x.shape[:3], size // 2), "it is not a half of the last axis that is cut")


def halves(g: Graph, x: Tensor, *cut: Any) -> tuple[Tensor, Tensor]:
    """The two halves of the last axis."""
    low, middle, high, axis = cut
    split = g.split(x, g.any_tensor(), axis=-1, outputs=2)
    first = g.any_of(split[0], g.slice(x, low, middle, axis))
    second = g.any_of(split[1], g.slice(x, middle, high, axis))
    return g.such_that(first, is_half, x), g.such_that(second, is_half, x)


def by_halves(
    g: Graph, x: Tensor, cos: Tensor, sin: Tensor, low: list[int], middle: list[int], high: list[int], axis: list[int]
) -> Tensor:
    """a · cos − b · sin before b · cos + a · sin, for the halves a, b of a head."""
    a, b = halves(g, x, low, middle, high, axis)
    return g.concat(g.sub(g.mul(a, cos), g.mul(b, sin)), g.add(g.mul(b, cos), g.mul(a, sin)), axis=-1)


def cut_in_order(match: Match) -> None:
    """Slices are of the last axis, the first half from its beginning on."""
    if "axis" in match.bound:
        require(match["axis"][0] in (3, -1) and match["low"][0] == 0, "the halves are not those of the last axis")


def as_it_is(values: Array) -> Array:
    """A table of half a head."""
    return values


@rule(patterns=[by_halves], conditions=[cut_in_order], form_patterns=[of_runtime])
def rotary_halves(g: Graph, match: Match) -> Tensor:
    """Fuse a rotary embedding whose halves are computed apart into one RotaryEmbedding node.

    What: for the halves a, b of the last axis of [batch, head, row, column]: a · cos − b · sin, and b · cos + a · sin
    behind it.  For target onnx, the op of ONNX Runtime becomes RotaryEmbedding too; for target decomposed, both become
    primitives, those of neighbours and of a part of each head as well.
    Numerics: rounding only.
    """
    require("x" in match.bound, "RotaryEmbedding of ONNX is not written as an op of ONNX Runtime's own")
    return runtimes(g, match["x"], tables(g, match, match["x"], as_it_is))


@rotary_halves.on("onnx", opset=23, patterns=[of_onnx])
def _(g: Graph, match: Match) -> Tensor:
    if "x" not in match.bound:
        return as_onnx(g, match)
    return standard(g, match["x"], tables(g, match, match["x"], as_it_is))


@rotary_halves.on("decomposed")
def _(g: Graph, match: Match) -> Tensor:
    require("x" not in match.bound, "it is in parts already")
    return in_parts(g, match)
