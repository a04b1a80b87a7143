"""A softmax between two Transposes, over an axis that the second Transpose moves to the end."""

from typing import Any

from surgeon import Captures, Graph, Tensor, require, rule


class TransposedSoftmax(Captures):
    """Scores that are transposed, optionally scaled and biased, and transposed again after a softmax.

    first, second: the permutations of the axes.
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
    """Transpose scores once, before a softmax over their last axis, if they are transposed before and after it.

    What: an attention by Einsum whose scores have the heads last, as in LoFTR (Sun et al., arXiv:2104.00680), or after
    the rows, as in the reference code of DeepSeek.
    Numerics: none.
    """
    rank = len(m.first)
    require(len(m.second) == rank, "the two Transposes must have the same rank")
    require(m.second[-1] == m.axis % rank, "the axis of the softmax must be the last one after the second Transpose")
    perm = [m.first[axis] for axis in m.second]
    x = turned(g, m.x, perm)
    scaled = x if m.scale is None else g.mul(x, m.scale)
    if m.bias is not None:
        require(
            m.bias.rank is not None and m.bias.rank <= rank,
            "the rank of the bias is unknown or above the rank of the scores",
        )
        ahead = list(range(rank - m.bias.rank))
        scaled = g.add(scaled, turned(g, g.unsqueeze(m.bias, ahead) if ahead else m.bias, m.second))
    return g.softmax(scaled, axis=-1)


def turned(g: Graph, x: Tensor, perm: list[int]) -> Tensor:
    """Transpose x, unless the order of its axes stays the same."""
    return x if perm == sorted(perm) else g.transpose(x, perm=perm)
