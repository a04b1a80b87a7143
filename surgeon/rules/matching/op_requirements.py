"""The ops that a pattern requires, derived from the pattern: which can produce each value, and which must occur."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

from surgeon.ir.scope import qualified_name
from surgeon.ops.traits.dtype_traits import SIGMOIDS
from surgeon.ops.traits.trait_lookup import MULTIPLICATIONS, TRANSPARENT
from surgeon.rules.matching.associative.flattening import PRODUCT, SUM, FlatChain, flatten
from surgeon.rules.matching.associative.identities import DEPTH, OPS_EXPANDED, OPS_REPLACED, SUMS, TANHS, Identity
from surgeon.rules.matching.node_matchers import is_wildcard
from surgeon.rules.matching.pattern import AnyOf, NamedValue, NodeOutput, Pattern, Value, Var

Answer = TypeVar("Answer")
Asked = TypeVar("Asked", bound="OpRequirements")
HasAnyOp = Callable[[frozenset[str]], bool]  # whether one of these ops occurs
_NODES = (NodeOutput, AnyOf, NamedValue)  # values that contain nodes


class WrittenOps(NamedTuple):
    """The ops that a pattern names as written, without algebraic identities."""

    heads: tuple[frozenset[str] | None, ...]
    """Ops that can produce each output; None: any."""
    required: frozenset[frozenset[str]]
    """Groups of ops; a match contains at least one op of each group."""
    allowed: frozenset[str] | None
    """All ops that a match may contain; None: any."""


def memoized(method: Callable[[Asked, Any], Answer]) -> Callable[[Asked, Any], Answer]:
    """Compute a method once per value: values are shared, and nested helpers share them many times."""

    name = method.__name__

    def asked(self: Asked, value: Any) -> Answer:
        known = self.answers[name]
        key = id(value)
        if key not in known:
            known[key] = method(self, value)
        answer: Answer = known[key]
        return answer

    return asked


class OpRequirements:
    """The values of a pattern, and the ops that each requires.

    of: the requirements of the same pattern, to compute those without algebraic identities.
    """

    def __init__(self, pattern: Pattern, of: "OpRequirements | None" = None) -> None:
        self.pattern, self.has_identities = pattern, of is None
        self.values: Sequence[Value] = pattern.values
        self.uses: dict[int, int] = _uses(pattern, self.values) if of is None else of.uses
        self.flats: dict[int, FlatChain | None] = {} if of is None else of.flats
        self.answers: defaultdict[str, dict[int, Any]] = defaultdict(dict)

    def flat(self, value: NodeOutput) -> FlatChain | None:
        """The chain that this output is the root of; None for other ops."""
        if id(value.operation) not in self.flats:
            self.flats[id(value.operation)] = flatten(value, self.uses)
        return self.flats[id(value.operation)]

    @memoized
    def identities(self, value: NodeOutput) -> frozenset[Identity]:
        """The identities that apply to the operands of a product."""
        flat = self.flat(value) if self.has_identities else None
        if flat is None or flat.family is not PRODUCT:
            return frozenset()
        heads = frozenset[str]().union(*[self.heads(item) or () for item, _ in flat.operands])
        found: set[Identity] = {"factor"} if heads & SUMS else set()
        if heads & SIGMOIDS:
            found |= {"sigmoid", "factor"}
        if any(self._holds_tanh(item) for item, _ in flat.operands):
            found.add("tanh")
        return frozenset(found)

    def _is_factored(self, value: Value) -> bool:
        """Whether a value is a product that may be multiplied out."""
        heads = self.heads(value)
        return heads is not None and not heads.isdisjoint(MULTIPLICATIONS) and not heads.isdisjoint(SUMS)

    def _holds_tanh(self, value: Value) -> bool:
        """Whether a value is a sum with a tanh operand."""
        if isinstance(value, NamedValue):
            return self._holds_tanh(value.value)
        if isinstance(value, AnyOf):
            return any(self._holds_tanh(form) for form in value.forms)
        flat = self.flat(value) if isinstance(value, NodeOutput) else None
        if flat is None or flat.family is not SUM:
            return False
        return TANHS in [self.heads(item) for item, _ in flat.operands]

    @memoized
    def heads(self, value: Value) -> frozenset[str] | None:
        """Ops that can produce a value; None: any."""
        if isinstance(value, NamedValue):
            return self.heads(value.value)
        if isinstance(value, AnyOf):
            found: frozenset[str] = frozenset()
            for form in value.forms:
                heads = self.heads(form)
                if heads is None:
                    return None
                found |= heads
            return found
        if not isinstance(value, NodeOutput) or is_wildcard(value.operation):
            return None
        flat = self.flat(value)
        if flat is None:
            return frozenset({qualified_name(value.operation.domain, value.operation.op)})
        return flat.family | SUMS if "factor" in self.identities(value) else flat.family

    @memoized
    def required(self, value: Value | None) -> frozenset[frozenset[str]]:
        """Groups of ops; a match contains at least one op of each group."""
        if isinstance(value, NamedValue):
            return self.required(value.value)
        if isinstance(value, AnyOf):
            forms = list(map(self.required, value.forms))
            common = frozenset.intersection(*forms)
            others = [form - common for form in forms]
            if not all(others):
                return common
            return common | {frozenset[str]().union(*[min(form, key=by_rarity) for form in others])}
        if not isinstance(value, NodeOutput):
            return frozenset()
        flat = self.flat(value)
        if flat is not None:
            below: Sequence[Value | None] = [item for item, _ in flat.operands]
        else:
            below = value.operation.inputs
        own = self.heads(value)
        found = frozenset({own}) if own is not None else frozenset()
        groups = found.union(*[self.required(item) for item in below if isinstance(item, _NODES)])
        for law in self.identities(value):
            wanted = TANHS if law == "tanh" else SIGMOIDS
            groups = groups - {wanted} | {wanted | OPS_REPLACED[law]} if wanted in groups else groups
        return groups

    def lacks(self, value: Value | None, has: HasAnyOp, *, forms: bool) -> bool:
        """Whether a value requires an absent op, by a quick check: `required` takes far longer.

        forms: also if each form lacks an op; `required` has no group for that if several differ.
        """
        if isinstance(value, NamedValue):
            return self.lacks(value.value, has, forms=forms)
        if isinstance(value, AnyOf):
            return forms and all(self.lacks(form, has, forms=True) for form in value.forms)
        if not isinstance(value, NodeOutput):
            return False
        heads, flat = self.heads(value), self.flat(value)
        if heads is not None and not has(heads):
            return True
        if self.identities(value):
            return False
        below = value.operation.inputs if flat is None else [item for item, _ in flat.operands]
        return any(self.lacks(item, has, forms=forms) for item in below if isinstance(item, _NODES))

    def allowed(self) -> frozenset[str] | None:
        """All ops of the pattern, and those that it looks through."""
        found: set[str] = set(TRANSPARENT)
        for value in self.values:
            if isinstance(value, NodeOutput):
                heads = self.heads(value)
                if heads is None:
                    return None
                found |= heads
                for law in self.identities(value):
                    found |= OPS_EXPANDED[law] | OPS_REPLACED[law]
        return frozenset(found)

    @memoized
    def depth(self, value: Value | None) -> int:
        """Nodes on the longest path down; a chain of n operands may be n nodes deep, plus constants."""
        if isinstance(value, NamedValue):
            return self.depth(value.value)
        if isinstance(value, AnyOf):
            return max(self.depth(form) for form in value.forms)
        if not isinstance(value, NodeOutput):
            return 0
        flat = self.flat(value)
        if flat is not None:
            spare = DEPTH if self.identities(value) else 2
            return len(flat.operands) + spare + max((self.depth(item) for item, _ in flat.operands), default=0)
        return 1 + max((self.depth(item) for item in value.operation.inputs), default=0)


@cache
def by_rarity(group: frozenset[str]) -> tuple[int, list[str]]:
    """Sort key of groups of ops: their size, then their names."""
    return len(group), sorted(group)


def _uses(pattern: Pattern, values: Sequence[Value]) -> dict[int, int]:
    """How often each node and each variable of the pattern is read or returned."""
    uses: defaultdict[int, int] = defaultdict(int)  # a Counter counts one by one in Python
    for value in pattern.outputs:
        if isinstance(value, NodeOutput):
            uses[id(value.operation)] += 1
    seen: set[int] = set()
    for value in values:
        if isinstance(value, NodeOutput):
            if id(value.operation) in seen:
                continue
            seen.add(id(value.operation))
            readers: Sequence[Value | None] = value.operation.inputs
        elif isinstance(value, AnyOf):
            readers = (*value.forms, *value.forms)
        else:
            readers = (value.value, value.value) if isinstance(value, NamedValue) else ()
        for item in readers:
            if isinstance(item, NodeOutput):
                uses[id(item.operation)] += 1
            elif isinstance(item, Var):
                uses[id(item)] += 1
    return dict(uses)
