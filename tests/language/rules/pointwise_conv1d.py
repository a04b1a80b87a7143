"""A convolution over one axis with kernels of one place: a product of matrices at each place."""

from surgeon import Captures, Constant, Graph, Tensor, dims, rule


class Pointwise(Captures):
    x: Tensor = dims("batch channels places")
    w: Constant = dims("made channels 1")
    bias: Constant | None = dims("made", default=None)


def conv(g: Graph, m: Pointwise) -> Tensor:
    """Conv with everything else at its default: one group, no padding, no steps."""
    return g.any_of(*(g.conv(m.x, m.w, m.bias, **shape) for shape in ({}, {"kernel_shape": [1]})))


@rule(patterns=[conv], target="any")
def pointwise_conv1d(g: Graph, m: Pointwise) -> Tensor:
    """Write it as a MatMul, which has faster kernels.

    Numerics: rounding only.
    """
    made = g.matmul(m.w.values[:, :, 0], m.x)
    return made if m.bias is None else g.add(made, m.bias.values[:, None])
