"""Which ops may stand on the way up from a node to the root of a pattern, told from the pattern alone.

Each node of a pattern, and each sum or product, is a place.  A node of a model may stand at some of them by its op, its
readers at those above, and so on: where none is left, no match leads on.
"""

from collections.abc import Callable, Iterator

from surgeon.ops.traits.trait_lookup import TRANSPARENT
from surgeon.rules.matching.associative.flattening import PRODUCT, SUM
from surgeon.rules.matching.associative.identities import LOOKED_INTO, OPS_EXPANDED, OPS_REPLACED
from surgeon.rules.matching.op_requirements import OpRequirements
from surgeon.rules.matching.pattern import AnyOf, NamedValue, NodeOutput, Value

PatternPositions = frozenset[int]  # nodes of the pattern, and sums and products, by their keys

BY_LAWS = PRODUCT | SUM | LOOKED_INTO | frozenset[str]().union(*OPS_EXPANDED.values(), *OPS_REPLACED.values())


class RootPaths:
    """The places of a pattern, and those above each."""

    def __init__(self, needs: OpRequirements, accepts: Callable[[NodeOutput], Callable[[str], bool]]) -> None:
        self._needs = needs
        self._accepts: dict[int, Callable[[str], bool]] = {}
        self._above: dict[int, set[int]] = {}
        self._products: set[int] = set()
        self._chains: set[int] = set()  # sums and products, through which a way may be of several nodes
        for value in needs.values:
            if isinstance(value, NodeOutput) and id(value.operation) not in self._accepts:
                self._add(value, accepts)
        self._root = frozenset(self._places(needs.pattern.outputs[0]))
        self._started: dict[str, PatternPositions] = {}
        self._stepped: dict[tuple[PatternPositions, str], PatternPositions] = {}
        self._plain: dict[PatternPositions, PatternPositions] = {}

    def _add(self, value: NodeOutput, accepts: Callable[[NodeOutput], Callable[[str], bool]]) -> None:
        place, laws = id(value.operation), self._needs.laws(value)
        self._above.setdefault(place, set())
        flat = self._needs.flat(value)
        if flat is None:
            self._accepts[place] = accepts(value)
        else:
            ops = BY_LAWS if laws else self._needs.heads(value) or frozenset()
            self._accepts[place] = ops.__contains__
            if flat.family is PRODUCT:
                self._products.add(place)
            self._chains.add(place)
        for below in self._below(value, bool(laws)):
            self._above.setdefault(below, set()).add(place)

    def _below(self, value: NodeOutput, has_laws: bool) -> Iterator[int]:
        """The places whose tensors one reads.  has_laws: also of those that algebra may do away with on the way."""
        seen: set[int] = set()
        waiting: list[Value | None] = [value]
        while waiting:
            item = waiting.pop()
            if item is None or id(item) in seen:
                continue
            seen.add(id(item))
            if isinstance(item, (AnyOf, NamedValue)):
                waiting += item.forms if isinstance(item, AnyOf) else (item.value,)
            elif isinstance(item, NodeOutput):
                if item is not value:
                    yield id(item.operation)
                flat = self._needs.flat(item)
                if item is value or (has_laws and (flat is not None or item.operation.op in BY_LAWS)):
                    waiting += item.operation.inputs if flat is None else [operand for operand, _ in flat.operands]

    def _places(self, value: Value) -> Iterator[int]:
        if isinstance(value, NodeOutput):
            yield id(value.operation)
        elif isinstance(value, AnyOf):
            for form in value.forms:
                yield from self._places(form)
        elif isinstance(value, NamedValue):
            yield from self._places(value.value)

    def start(self, op: str) -> PatternPositions:
        """The places at which a node of an op may stand."""
        found = self._started.get(op)
        if found is None:
            found = frozenset(place for place, accepts in self._accepts.items() if accepts(op))
            self._started[op] = found
        return found

    def above(self, places: PatternPositions, op: str) -> PatternPositions:
        """The places at which a reader of an op may stand, where what it reads stands at one of these."""
        found = self._stepped.get((places, op))
        if found is None:
            further = (places & self._chains).union(*(self._above[place] for place in places))
            found = frozenset(place for place in further if self._accepts[place](op))
            found |= places if op in TRANSPARENT else frozenset()
            self._stepped[places, op] = found
        return found

    def without_laws(self, places: PatternPositions) -> PatternPositions:
        """Those of a sum that are no product's."""
        found = self._plain.get(places)
        if found is None:
            kept = places - self._products
            found = self._plain[places] = places if len(kept) == len(places) else kept
        return found

    def is_root(self, places: PatternPositions) -> bool:
        """Whether a node at one of these may make the first output."""
        return not self._root.isdisjoint(places)
