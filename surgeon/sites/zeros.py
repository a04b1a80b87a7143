"""The signs of zeros that a region hands on to what divides by them: one over -0 is minus infinity."""

from surgeon.indexing.scope import Scope
from surgeon.ops.records import record
from surgeon.sites.region import Region

MOST_BETWEEN = 4  # nodes that move numbers, between a region and what divides by them


def handed_on(region: Region) -> frozenset[str]:
    """The outputs of a region, by their names in the source, that something divides by as it stands now."""
    return frozenset(old for old, new in region.outputs if any(divides(region.scope, name) for name in {old, new}))


def divides(scope: Scope, name: str, between: int = 0) -> bool:
    """Whether a node divides by a tensor, or by what others merely move it to."""
    for node in scope.readers(name):
        known = record(node.op)
        slots = [slot for slot, given in enumerate(node.inputs) if given == name]
        if known.family == "product" and any(known.signs[slot : slot + 1] == (-1,) for slot in slots):
            return True
        moved = node.outputs if between < MOST_BETWEEN and not set(slots).isdisjoint(known.moves) else ()
        if any(divides(node.scope, made, between + 1) for made in moved if made):
            return True
    return False
