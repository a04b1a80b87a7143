"""Traits of the nodes of both sides of a region that decide which inputs are informative."""

from collections.abc import Callable, Iterable

from surgeon.ops.traits.op_traits import OpTraits
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.proof_case import ProofCase
from surgeon.shapes.constraints.input_dims import dim_kind

_DECIDES: dict[str, Callable[[OpTraits], object]] = {
    "adds products": lambda op: op.products.kind,  # the order of terms decides which large ones overflow
    # The result shows only the large ones among numbers of all magnitudes.
    "accumulates": lambda op: op.numerics.accumulates or op.numerics.is_max_like,
    "reads positions": lambda op: op.indexing.reads_coordinates,  # kernels differ for far and for tiny ones
    # The same where these floats may be any number; boxes are generated as boxes.
    "reads any positions": lambda op: op.indexing.reads_coordinates and op.indexing.boxes is None,
    "finds extremes": lambda op: op.numerics.reduces == "extremum",
    "sums": lambda op: op.numerics.reduces == "sum",
}


def region_traits(case: ProofCase) -> frozenset[str]:
    """The names of all traits that the region has: those of `_DECIDES`, and four of the case."""
    ops = [traits_of(op) for op in case.ops]
    found = {name for name, holds in _DECIDES.items() if any(map(holds, ops))}
    of_case = {
        "finds extremes": _scatters_extremes(case),
        "picks by products": case.picks_by_products,
        "squares": case.squares,
        "divides": case.divides,
    }
    return frozenset(found.union(name for name, holds in of_case.items() if holds))


def _scatters_extremes(case: ProofCase) -> bool:
    """Whether a node of the original keeps the larger or smaller of several numbers that it writes to one position."""
    found = (item for node in case.models.before.graph.node for item in node.attribute if item.name == "reduction")
    return any(item.s in (b"max", b"min") for item in found)


def adds_nothing(assignment: DimAssignment, ops: Iterable[str]) -> bool:
    """Whether a sum of products may have no terms: some kernels return uninitialized memory then."""
    empty = [name for name, size in assignment.by_symbol.items() if not size]
    is_reduced = assignment.is_empty and any(dim_kind(name) != "past" for name in empty)
    return is_reduced and any(_DECIDES["adds products"](traits_of(op)) for op in ops)
