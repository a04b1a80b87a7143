"""What stands behind the softmax of an attention for rows that have no weights."""

from surgeon import Graph, Tensor


def guarded(g: Graph, weights: Tensor) -> Tensor:
    """Weights with 0 in the place of NaN, perhaps as torch's nan_to_num has it: they are never infinite."""
    plain, found = g.nan_to_zero(weights), g.isinf(weights)
    below = g.where(g.and_(g.less(weights, 0.0), found), g.any_number(), plain)
    return g.any_of(plain, g.where(g.and_(g.greater(weights, 0.0), found), g.any_number(), below))
