"""Which tensors are divisors: for these the sign of a zero matters, since 1 / -0 is minus infinity."""

from surgeon.ir.scope import Scope
from surgeon.ops.traits.trait_lookup import traits_of

MAX_MOVES = 4  # maximum number of moving nodes between a tensor and a division


def divides(scope: Scope, name: str, between: int = 0) -> bool:
    """Whether a tensor, or a tensor with its elements moved, is a divisor of a node."""
    for node in scope.readers(name):
        known = traits_of(node.op)
        slots = [slot for slot, given in enumerate(node.inputs) if given == name]
        if known.algebra.family == "product" and any(known.algebra.signs[slot : slot + 1] == (-1,) for slot in slots):
            return True
        moved = node.outputs if between < MAX_MOVES and not set(slots).isdisjoint(known.data.copies_elements) else ()
        if any(divides(node.scope, made, between + 1) for made in moved if made):
            return True
    return False
