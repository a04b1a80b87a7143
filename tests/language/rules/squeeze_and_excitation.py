"""Squeeze-and-excitation (Hu et al., arXiv:1709.01507): channels weighted by what all places of them say."""

import surgeon
from surgeon import Captures, Constant, Graph, Tensor, dims, rule


class Block(Captures):
    x: Tensor = dims("batch channels rows columns")
    squeeze: Constant = dims("less channels 1 1")
    one: Constant = dims("less")
    excite: Constant = dims("channels less 1 1")
    two: Constant = dims("channels")


@surgeon.function("acme::SqueezeAndExcite")
def excited(g: Graph, x: Tensor, squeeze: Tensor, less: Tensor, excite: Tensor, more: Tensor) -> Tensor:
    """x · sigmoid(conv(relu(conv(mean over all places)))), where convolutions see one place."""
    mean = g.reduce_mean(x, axes=[2, 3], keepdims=1)
    return g.mul(x, g.sigmoid(g.conv(g.relu(g.conv(mean, squeeze, less)), excite, more)))


def written_out(g: Graph, m: Block) -> Tensor:
    """The same, however the mean is taken and the convolutions say how large their kernels are."""
    mean = g.any_of(g.mean_over(m.x, [2, 3]), g.global_average_pool(m.x))
    small = pointwise(g, mean, m.squeeze, m.one)
    return g.mul(m.x, g.sigmoid(pointwise(g, g.relu_of(small), m.excite, m.two)))


def pointwise(g: Graph, x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    """A convolution whose kernels see one place."""
    return g.any_of(g.conv(x, w, bias, kernel_shape=[1, 1]), g.conv(x, w, bias))


@rule(patterns=[written_out], target="any")
def squeeze_and_excitation(g: Graph, m: Block) -> Tensor:
    """Write the block as one call."""
    return excited(g, m.x, m.squeeze, m.one, m.excite, m.two)
