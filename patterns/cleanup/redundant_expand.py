"""Tensors that are expanded before a node that broadcasts them anyway."""

from itertools import zip_longest
from typing import Any

from surgeon import Graph, Tensor, emit_body, require, rule, searches


def spreads_anyway(small: Tensor, whole: Tensor, others: list[Tensor]) -> None:
    """Require that the other inputs give the result each size, and the rank, that the Expand gives the tensor."""
    shapes = [tensor.shape for tensor in (small, whole, *others)]
    require(None not in shapes, "a shape is unknown")
    own, wanted, *beside = ([*shape[::-1]] for shape in shapes)
    require(len(wanted) <= max(map(len, (own, *beside))), "the result may have fewer axes without the Expand")
    for size, *given in zip_longest(wanted, own, *beside, fillvalue=1):
        is_given = size in given and given[0] in (1, size)
        require(is_given, "the expanded tensor may have another shape than the other inputs give the result")


@rule(search=searches.expanded_operands, conditions=[spreads_anyway], target="any", opset=8)
def redundant_expand(g: Graph, small: Tensor, others: list[Tensor], body: Any) -> list[Tensor]:
    """Pass a tensor to a node that broadcasts it, instead of expanding it first.

    What: an Expand before arithmetic, a comparison, a logical node or a Where, if the other inputs have each size that
    the Expand repeats, or a Tile of axes of size one.  For example normalize of torch expands lengths.
    Numerics: none.
    """
    return emit_body(g, body, [small, *others], {})
