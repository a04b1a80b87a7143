"""A softmax between two transposes, over an axis that is the last behind them."""

from typing import Any

from surgeon import Captures, Graph, Tensor, require, rule


class TransposedSoftmax(Captures):
    """Scores that are turned, perhaps scaled and biased, and turned again behind a softmax.

    first, second: how the axes go.
    """

    x: Tensor
    scale: float | None = None
    bias: Tensor | Any = None
    first: list[int]
    second: list[int]
    axis: int


def between_transposes(g: Graph, m: TransposedSoftmax) -> Tensor:
    """transpose(softmax(transpose(x) · scale + bias))."""
    inner = g.transpose(m.x, perm=m.first)
    scaled = g.any_of(g.mul(inner, m.scale), inner)
    biased = g.any_of(g.add(scaled, m.bias), scaled)
    return g.transpose(g.softmax(biased, axis=m.axis), perm=m.second)


@rule(patterns=[between_transposes], target="any", opset=13)
def transposed_softmax(g: Graph, m: TransposedSoftmax) -> Any:
    """Turn scores once, before a softmax over their last axis, where they are turned before it and behind it.

    What: an attention by Einsum whose scores have the heads last, as LoFTR has it (Sun et al., arXiv:2104.00680), or
    behind the rows, as DeepSeek's reference has it.
    Numerics: none.
    """
    rank = len(m.first)
    require(len(m.second) == rank, "the two transposes are of other ranks")
    require(m.second[-1] == m.axis % rank, "the axis of the softmax is not the last behind it")
    perm = [m.first[axis] for axis in m.second]
    x = turned(g, m.x, perm)
    scaled = x if m.scale is None else g.mul(x, m.scale)
    if m.bias is not None:
        require(m.bias.rank is not None and m.bias.rank <= rank, "the bias has more axes, or nobody knows which")
        ahead = list(range(rank - m.bias.rank))
        scaled = g.add(scaled, turned(g, g.unsqueeze(m.bias, ahead) if ahead else m.bias, m.second))
    return g.softmax(scaled, axis=-1)


def turned(g: Graph, x: Tensor, perm: list[int]) -> Tensor:
    """x with its axes in another order, if it is another."""
    return x if perm == sorted(perm) else g.transpose(x, perm=perm)
