"""A softmax between two transposes, over an axis that is the last behind them."""

from typing import Any

from surgeon import Captures, Graph, Tensor, require, rule


class Turned(Captures):
    """Scores that are turned, perhaps scaled, and turned again behind a softmax; first, second: how the axes go."""

    x: Tensor
    scale: float | None = None
    first: list[int]
    second: list[int]
    axis: int


def between_transposes(g: Graph, m: Turned) -> Tensor:
    """transpose(softmax(transpose(x) · scale))."""
    inner = g.transpose(m.x, perm=m.first)
    scaled = g.any_of(g.mul(inner, m.scale), inner)
    return g.transpose(g.softmax(scaled, axis=m.axis), perm=m.second)


@rule(patterns=[between_transposes], target="any", opset=13)
def turned_softmax(g: Graph, m: Turned) -> Any:
    """Turn scores once, before a softmax over their last axis, where they are turned before it and behind it.

    What: an attention by Einsum whose scores have the heads last, as LoFTR has it (Sun et al., arXiv:2104.00680).
    Numerics: none.
    """
    rank = len(m.first)
    require(len(m.second) == rank, "the two transposes are of other ranks")
    require(m.second[-1] == m.axis % rank, "the axis of the softmax is not the last behind it")
    perm = [m.first[axis] for axis in m.second]
    x = m.x if perm == sorted(perm) else g.transpose(m.x, perm=perm)
    return g.softmax(x if m.scale is None else g.mul(x, m.scale), axis=-1)
