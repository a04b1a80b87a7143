"""The work of a node, estimated from shapes: a constant for each output element, more for products and windows."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from surgeon.ir.scope import split_op
from surgeon.ops.schemas import schema
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.shapes.algebra.size_expressions import Size, SizeError

ELEMENT = 16  # cost of one elementwise output element, in multiplications of a matrix product
INTERPRETED = 1 << 10  # the same for an operator without a kernel, which Python computes
Extent = tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class CostTerm:
    """Work of one node: elements of `each`, times elements of `others`, times `counts`."""

    each: Extent
    """Shape of the tensor that is computed."""
    others: Extent = ()
    """Dims of the terms of each element, as K of a matrix product."""
    counts: int = 1
    """Cost of one term, in multiplications."""

    def at(self, size: Callable[[Size], int]) -> int:
        """The work in multiplications, `size` gives the sizes; 0 if one has no value."""
        return self.counts * _product((*self.each, *self.others), size)

    def elements(self, size: Callable[[Size], int]) -> int:
        """The elements of the tensor, `size` gives the sizes; 0 if one has no value."""
        return _product(self.each, size)


def _product(extent: Extent, size: Callable[[Size], int]) -> int:
    try:
        return math.prod(map(size, extent))
    except SizeError:
        return 0


def node_costs(name: str, reads: Sequence[Extent | None], makes: Sequence[Extent | None]) -> Iterator[CostTerm]:
    """The work of one node of a qualified operator: one term for each output, more for products.

    reads, makes: the shapes of its inputs and outputs, None for one that is left out or unknown.
    """
    domain, op = split_op(name)
    has_kernel = schema(domain, op, None) is not None
    yield from (CostTerm(made, counts=ELEMENT if has_kernel else INTERPRETED) for made in makes if made is not None)
    known = traits_of(name)
    weight = known.products.weight_slot or (known.products.factors or (0, 1))[1]
    made, first, second = (*makes, None)[0], (*reads, None)[0], (*reads[weight : weight + 1], None)[0]
    if made is None or first is None or second is None:
        return
    if known.products.kind == "matmul":
        yield CostTerm(made, first[-1:])
    elif known.products.kind == "conv_transpose":
        yield CostTerm(first, second[1:])
    elif known.products.kind == "conv":
        yield CostTerm(made, second[1:])
    elif known.products.kind == "attention":
        keys = second if known.products.attention_inputs else first  # else projected from the same rows
        yield CostTerm(first, keys[-2:-1], counts=2)
    elif known.products.kind == "rnn":
        yield from (CostTerm(first[:-1], extent) for extent in reads[weight : weight + 2] if extent is not None)
