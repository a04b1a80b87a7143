"""LayerScale (Touvron et al., arXiv:2103.17239): a number for each column, behind a linear layer."""

from surgeon import Captures, Constant, Graph, Tensor, dims, rule


class Layer(Captures):
    x: Tensor
    w: Constant = dims("inner columns")
    bias: Constant | None = dims("columns", default=None)
    gamma: Constant = dims("columns")


def scaled(g: Graph, m: Layer) -> Tensor:
    """(x · w + bias) · gamma, where there may be no bias."""
    return g.mul(g.optional(g.add(g.matmul(m.x, m.w), m.bias)), m.gamma)


@rule(patterns=[scaled], target="any", dtypes="floats")
def layer_scale(g: Graph, m: Layer) -> Tensor:
    """Fold the numbers into the weights and the bias.

    Numerics: rounding only.
    """
    made = g.matmul(m.x, m.w.values * m.gamma.values)
    return made if m.bias is None else g.add(made, m.bias.values * m.gamma.values)
