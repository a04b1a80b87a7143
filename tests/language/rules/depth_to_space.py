"""Depth to space (Shi et al., arXiv:1609.05158), as torch.nn.PixelShuffle is decomposed."""

from surgeon import Captures, Graph, Tensor, dims, rule


class Shuffle(Captures):
    x: Tensor = dims("batch deep rows columns")
    six: Tensor = dims("batch channels block block rows columns")
    y: Tensor = dims("batch channels rows*block columns*block")
    block: int


class Blocks(Shuffle):
    six: Tensor = dims("batch block block channels rows columns")


def by_channels(g: Graph, m: Shuffle) -> Tensor:
    """Reshape, Transpose, Reshape, where the channels come before the blocks (torch)."""
    m.six = g.reshape(m.x, g.any_tensor())
    m.y = g.reshape(g.transpose(m.six, perm=[0, 1, 4, 2, 5, 3]), g.any_tensor())
    return m.y


def by_blocks(g: Graph, m: Blocks) -> Tensor:
    """The same with the blocks before the channels (TensorFlow)."""
    m.six = g.reshape(m.x, g.any_tensor())
    m.y = g.reshape(g.transpose(m.six, perm=[0, 3, 4, 1, 5, 2]), g.any_tensor())
    return m.y


@rule(patterns=[by_channels], target="any")
def depth_to_space(g: Graph, m: Shuffle) -> Tensor:
    """Write one DepthToSpace."""
    return g.depth_to_space(m.x, blocksize=m.block, mode="CRD")


@rule(patterns=[by_blocks], target="any")
def depth_to_space_of_blocks(g: Graph, m: Blocks) -> Tensor:
    """Write one DepthToSpace."""
    return g.depth_to_space(m.x, blocksize=m.block, mode="DCR")
