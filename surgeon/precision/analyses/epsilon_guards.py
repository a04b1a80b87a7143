"""Small numbers that keep a divisor or a logarithm away from zero, but become zero in half precision.

A norm that is at least 1e-12 turns a row of zeros into zeros.  The bound itself keeps the old dtype, but if a later
division reads it in float16, it is zero, and the row becomes NaN.  No generated input has such a row.
"""

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from surgeon.file.tensors.casting import cast_array
from surgeon.ir.scope import Node
from surgeon.ops.traits.dtype_traits import CLIP_BOUNDS, LOGARITHMS, POWERS
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.precision.analyses.dtype_graph import DtypeGraph, TensorKey

_MAX_NODES = 16  # nodes between such a number and the guarded node


class EpsilonGuards:
    """The guarded nodes, from the one that reads such a number to the one that divides.

    small: the least number of each stored tensor that loses its digits.  found: the nodes, each with the reason.
    """

    def __init__(self, dtype_graph: DtypeGraph, small: Mapping[TensorKey, float]) -> None:
        self._graph = dtype_graph
        self.found: dict[Node, str] = {}
        for (scope, name), least in small.items():
            what = f"{name!r} ({least:.3g}) keeps a divisor or a logarithm away from zero"
            reason = f"{what}, but {dtype_graph.change.names[1]} cannot represent it"
            for use in dtype_graph.tensors[scope, name].uses:
                if use.node is not None and self._guards(use.node, use.place):
                    for node in self._guarded(use.node, least):
                        self.found.setdefault(node, reason)

    def _guards(self, node: Node, place: int) -> bool:
        """Whether a node's output is at least the number that it reads at a place."""
        facts = traits_of(node.op)
        is_sum = facts.algebra.family == "sum" and min(facts.algebra.signs) > 0
        return is_sum or place in CLIP_BOUNDS.get(node.op, ()) or place in facts.data.carried

    def _guarded(self, first: Node, least: float) -> Iterator[Node]:
        """The nodes that divide by the first node's output, which is at least `least`, and those between."""
        waiting, seen = [([first], least)], {first}
        while waiting:
            path, least = waiting.pop()
            is_lost = self._is_lost(least)
            for name in path[-1].outputs:
                for reader in path[-1].scope.readers(name) if name else ():
                    if reader in seen or len(path) > _MAX_NODES:
                        continue
                    seen.add(reader)
                    behind = [*path[1:], reader]
                    facts, places = traits_of(reader.op), [at for at, text in enumerate(reader.inputs) if text == name]
                    made, fails = self._raised(reader, places, least), self._fails(reader, places, least)
                    is_carried = facts.algebra.family == "product" or any(at in facts.data.carried for at in places)
                    if is_lost and (fails or made is not None):
                        yield from behind
                    if made is not None:
                        waiting.append(([first, *behind], made))
                    elif is_lost and is_carried and not fails:
                        waiting.append(([first, *behind], least))

    def _fails(self, node: Node, places: Collection[int], least: float) -> bool:
        """Whether a node gives NaN or infinity if the number is lost: zero as a divisor, or zeros times infinity."""
        facts = traits_of(node.op)
        is_scaled = facts.algebra.family == "product" and least > 1
        return is_scaled or node.op in LOGARITHMS or any(place in facts.algebra.divisors for place in places)

    def _is_lost(self, number: float) -> bool:
        made = float(cast_array(np.array(number), self._graph.change.new))
        return made == 0 or not np.isfinite(made)

    def _raised(self, node: Node, places: Collection[int], least: float) -> float | None:
        """The output for the least input of a power, or of a quotient with a constant dividend; else None."""
        constants, power = self._graph.index.constants, POWERS.get(node.op)
        if node.op in POWERS and 0 in places:
            exponent = constants.scalar(node.scope, node.inputs[1]) if power is None else None
            power = power if exponent is None else exponent[0]
            return None if power is None else raised(least, power)
        if any(place in traits_of(node.op).algebra.divisors for place in places):
            dividend = constants.scalar(node.scope, node.inputs[0])
            return None if dividend is None else abs(dividend[0]) * raised(least, -1)
        return None


def raised(number: float, power: float) -> float:
    """A number to a power; infinite if that overflows."""
    with np.errstate(over="ignore", under="ignore"):
        return float(np.float64(number) ** power)
