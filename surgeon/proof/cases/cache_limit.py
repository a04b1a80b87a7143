"""Sizes that a kernel of attention with a cache refuses, although the original runs at them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from surgeon.file.model import Model
from surgeon.ir.index import Index
from surgeon.ir.scope import Node
from surgeon.ops.traits.trait_lookup import node_traits, traits_of
from surgeon.ops.traversal import nodes_of
from surgeon.shapes.algebra.size_expressions import Size, symbol, symbols
from surgeon.shapes.index_shapes import shapes_of


@dataclass(frozen=True, slots=True)
class CacheLimit:
    """A replacement that runs several new rows after a past only in a batch of one, and no batch of 0."""

    batch: Size
    """Sequences."""
    past: Size
    """Rows of the cache."""
    rows: Size
    """New rows."""

    def within(self, sizes: Mapping[str, int], size: Callable[[Size], int]) -> dict[str, int] | None:
        """The same sizes of symbols, or with a batch of one if it runs only that; None if it runs none.

        size: the number of a size.
        """
        batch = size(self.batch)
        if batch == 1 or (batch > 0 and (size(self.rows) == 1 or size(self.past) == 0)):
            return dict(sizes)
        name = _name(self.batch)
        return {**sizes, name: 1} if name and batch else None

    @property
    def batches(self) -> list[dict[str, int]]:
        """Sizes of larger batches that it runs: one row each after a past, and several rows without a past."""
        batch, ends = _name(self.batch), ((_name(self.rows), 1), (_name(self.past), 0))
        return [{batch: 3, name: least} for name, least in ends if batch and name]


def cache_limits(model: Model) -> Iterator[CacheLimit]:
    """The limits of the attentions with a cache in a main graph."""
    if not any(node_traits(node).operands.key_counts is not None for node in nodes_of(model.skeleton)):
        return
    index = Index(model)
    shapes = shapes_of(index)
    for node in index.main.nodes:
        if traits_of(node.op).operands.key_counts is not None and (name := past_of(node)):
            query, past = (shapes.shape(index.main, read) for read in (node.inputs[0], name))
            if query and past and len(query) > 1 and len(past) > 2:
                yield CacheLimit(past[0], past[2], query[1])


def past_of(node: Node) -> str:
    """The past keys of an attention; empty without any."""
    reads = traits_of(node.op).products.attention_inputs
    slot = None if reads is None else reads.past_key
    return "" if slot is None or slot >= len(node.inputs) else node.inputs[slot]


def _name(size: Size) -> str:
    """The symbol that a size is; empty for others."""
    name = next(iter(symbols(size)), "")
    return name if name and size == symbol(name) else ""
