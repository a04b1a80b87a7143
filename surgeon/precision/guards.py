"""Small numbers that keep a divisor or a logarithm from zero, and are zero in half precision.

A norm that is at least 1e-12 divides a row of zeros into zeros.  The bound itself is kept in the old dtype, but where
a division behind it reads what it makes in float16, that is zero, and a row of zeros is no number; no made input has
one.
"""

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from surgeon.file.recasting import recast
from surgeon.indexing.scope import Node
from surgeon.ops.dtypes_told import BOUNDING, LOGARITHMS, POWERS
from surgeon.ops.records import record
from surgeon.precision.wiring import Key, Wiring

_MOST = 16  # nodes between such a number and what it guards


class Guards:
    """What such numbers guard, from the node that reads one to the one that divides.

    small: the least number that each stored tensor holds of those that lose their digits.  found: the nodes, each with
    the reason.
    """

    def __init__(self, wiring: Wiring, small: Mapping[Key, float]) -> None:
        self._wiring = wiring
        self.found: dict[Node, str] = {}
        for (scope, name), least in small.items():
            what = f"{name!r} of {least:.3g} keeps a divisor or a logarithm from zero"
            reason = f"{what}, and {wiring.change.names[1]} cannot hold that"
            for use in wiring.wires[scope, name].uses:
                if use.node is not None and self._guards(use.node, use.place):
                    for node in self._guarded(use.node, least):
                        self.found.setdefault(node, reason)

    def _guards(self, node: Node, place: int) -> bool:
        """Whether what a node makes is no smaller than the number that it reads at a place."""
        facts = record(node.op)
        is_sum = facts.family == "sum" and min(facts.signs) > 0
        return is_sum or place in BOUNDING.get(node.op, ()) or place in facts.carried

    def _guarded(self, first: Node, least: float) -> Iterator[Node]:
        """The nodes that divide by what the first makes, of at least `least`, and those between."""
        waiting, seen = [([first], least)], {first}
        while waiting:
            path, least = waiting.pop()
            for name in path[-1].outputs if self._is_lost(least) else ():
                for reader in path[-1].scope.readers(name) if name else ():
                    if reader in seen or len(path) > _MOST:
                        continue
                    seen.add(reader)
                    behind = [*path[1:], reader]
                    facts, places = record(reader.op), [at for at, text in enumerate(reader.inputs) if text == name]
                    power = self._power(reader) if 0 in places else None
                    if power is not None:
                        yield from behind
                        waiting.append(([first, *behind], raised(least, power)))
                    elif self._fails(reader, places, least):
                        yield from behind
                    elif facts.family == "product" or any(at in facts.carried for at in places):
                        waiting.append(([first, *behind], least))

    def _fails(self, node: Node, places: Collection[int], least: float) -> bool:
        """Whether a node makes no number of what is lost: of zero as a divisor, of zeros by what is infinite."""
        facts = record(node.op)
        is_scaled = facts.family == "product" and least > 1
        return is_scaled or node.op in LOGARITHMS or any(place in facts.divisors for place in places)

    def _is_lost(self, number: float) -> bool:
        made = float(recast(np.array(number), self._wiring.change.new))
        return made == 0 or not np.isfinite(made)

    def _power(self, node: Node) -> float | None:
        """The power that a node raises to; None of others, and of one that is no single number."""
        if node.op not in POWERS or POWERS[node.op] is not None:
            return POWERS.get(node.op)
        told = self._wiring.index.constants.scalar(node.scope, node.inputs[1])
        return None if told is None else told[0]


def raised(number: float, power: float) -> float:
    """A number to a power; infinite where floats end."""
    with np.errstate(over="ignore", under="ignore"):
        return float(np.float64(number) ** power)
