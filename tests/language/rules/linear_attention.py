"""Linear attention (Katharopoulos et al., arXiv:2006.16236): features of queries and keys in place of a softmax."""

import surgeon
from surgeon import Captures, Graph, Tensor, dims, rule


class Linear(Captures):
    q: Tensor = dims("batch heads rows columns")
    k: Tensor = dims("batch heads keys columns")
    v: Tensor = dims("batch heads keys width")
    epsilon: float = 0.0


def written_out(g: Graph, m: Linear) -> Tensor:
    """φ(q) · (φ(k)ᵀ · v) / (φ(q) · Σ φ(k) + ε) with φ(x) = elu(x) + 1."""
    q, k = (g.named(g.add(g.elu(x), 1.0)) for x in (m.q, m.k))
    total = g.sum_over(k, [-2])
    shares = g.any_of(g.sum_over(g.mul(q, total), [-1]), g.matmul(q, g.transpose(total, perm=[0, 1, 3, 2])))
    made, shares = g.matmul(q, g.matmul(g.transpose(k, perm=[0, 1, 3, 2]), m.v)), g.optional(g.add(shares, m.epsilon))
    return g.any_of(g.div(made, shares), g.mul(made, g.reciprocal(shares)))


@surgeon.function("acme::LinearAttention")
def attend(g: Graph, q: Tensor, k: Tensor, v: Tensor, *, epsilon: float = 0.0) -> Tensor:
    """The same, for a runtime that has a kernel of that name; another runs the body."""
    q, k = g.add(g.elu(q), 1.0), g.add(g.elu(k), 1.0)
    shares = g.add(g.sum_over(g.mul(q, g.sum_over(k, [-2])), [-1]), epsilon)
    return g.div(g.matmul(q, g.matmul(g.transpose(k, perm=[0, 1, 3, 2]), v)), shares)


@rule(patterns=[written_out], target="any")
def linear_attention(g: Graph, m: Linear) -> Tensor:
    """Write linear attention as one call."""
    return attend(g, m.q, m.k, m.v, epsilon=m.epsilon)
