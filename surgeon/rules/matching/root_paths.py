"""Which ops can lie between a node and the root of a pattern, derived from the pattern.

Each node of a pattern, and each sum or product, is a position.  The op of a model's node decides at which positions it
can be, its readers at those above, and so on; if none is left, nothing matches.
"""

from collections.abc import Callable, Iterator

from surgeon.ops.traits.trait_lookup import TRANSPARENT
from surgeon.rules.matching.associative.flattening import PRODUCT, SUM
from surgeon.rules.matching.associative.identities import LOOKED_INTO, OPS_EXPANDED, OPS_REPLACED
from surgeon.rules.matching.op_requirements import OpRequirements
from surgeon.rules.matching.pattern import AnyOf, NamedValue, NodeOutput, Value

PatternPositions = frozenset[int]  # ids of operations, chains included

BY_IDENTITIES = PRODUCT | SUM | LOOKED_INTO | frozenset[str]().union(*OPS_EXPANDED.values(), *OPS_REPLACED.values())


class RootPaths:
    """The positions of a pattern, and those above each."""

    def __init__(self, needs: OpRequirements, accepts: Callable[[NodeOutput], Callable[[str], bool]]) -> None:
        self._needs = needs
        self._accepts: dict[int, Callable[[str], bool]] = {}
        self._above: dict[int, set[int]] = {}
        self._products: set[int] = set()
        self._chains: set[int] = set()  # sums and products: a path may pass several nodes of one
        for value in needs.values:
            if isinstance(value, NodeOutput) and id(value.operation) not in self._accepts:
                self._add(value, accepts)
        self._root = frozenset(self._places(needs.pattern.outputs[0]))
        self._started: dict[str, PatternPositions] = {}
        self._stepped: dict[tuple[PatternPositions, str], PatternPositions] = {}
        self._plain: dict[PatternPositions, PatternPositions] = {}

    def _add(self, value: NodeOutput, accepts: Callable[[NodeOutput], Callable[[str], bool]]) -> None:
        place, identities = id(value.operation), self._needs.identities(value)
        self._above.setdefault(place, set())
        flat = self._needs.flat(value)
        if flat is None:
            self._accepts[place] = accepts(value)
        else:
            ops = BY_IDENTITIES if identities else self._needs.heads(value) or frozenset()
            self._accepts[place] = ops.__contains__
            if flat.family is PRODUCT:
                self._products.add(place)
            self._chains.add(place)
        for below in self._below(value, bool(identities)):
            self._above.setdefault(below, set()).add(place)

    def _below(self, value: NodeOutput, has_identities: bool) -> Iterator[int]:
        """The positions that a position reads.  has_identities: include those that identities may eliminate."""
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
                if item is value or (has_identities and (flat is not None or item.operation.op in BY_IDENTITIES)):
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
        """The positions at which a node of an op can be."""
        found = self._started.get(op)
        if found is None:
            found = frozenset(place for place, accepts in self._accepts.items() if accepts(op))
            self._started[op] = found
        return found

    def above(self, places: PatternPositions, op: str) -> PatternPositions:
        """The positions at which a reader of an op can be, if the tensor that it reads is at one of these."""
        found = self._stepped.get((places, op))
        if found is None:
            further = (places & self._chains).union(*(self._above[place] for place in places))
            found = frozenset(place for place in further if self._accepts[place](op))
            found |= places if op in TRANSPARENT else frozenset()
            self._stepped[places, op] = found
        return found

    def without_products(self, places: PatternPositions) -> PatternPositions:
        """The positions without those of products."""
        found = self._plain.get(places)
        if found is None:
            kept = places - self._products
            found = self._plain[places] = places if len(kept) == len(places) else kept
        return found

    def is_root(self, places: PatternPositions) -> bool:
        """Whether a node at one of these can produce the first output."""
        return not self._root.isdisjoint(places)
