"""What is divided by: there the sign of a zero tells, as one over -0 is minus infinity."""

from surgeon.ir.scope import Scope
from surgeon.ops.traits.trait_lookup import traits_of

MOST_BETWEEN = 4  # nodes that move numbers, between a tensor and what divides by it


def divides(scope: Scope, name: str, between: int = 0) -> bool:
    """Whether a node divides by a tensor, or by what others merely move it to."""
    for node in scope.readers(name):
        known = traits_of(node.op)
        slots = [slot for slot, given in enumerate(node.inputs) if given == name]
        if known.algebra.family == "product" and any(known.algebra.signs[slot : slot + 1] == (-1,) for slot in slots):
            return True
        moved = node.outputs if between < MOST_BETWEEN and not set(slots).isdisjoint(known.data.copies_elements) else ()
        if any(divides(node.scope, made, between + 1) for made in moved if made):
            return True
    return False
