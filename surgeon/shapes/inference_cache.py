"""A cache of inferred types: most layers of a model are equal, and so are their shapes."""

from collections.abc import Container, Hashable, Sequence

from surgeon.ir.scope import Node, Scope
from surgeon.shapes.op_rules.rule_table import BY_FACTS
from surgeon.shapes.tensor_types import TensorType


class InferenceCache:
    """Output types by op and input types, for ops whose rules depend on nothing else.

    Inputs are compared by identity, which is faster than by value.  A cache miss costs at most as much as the rule.
    other: ops to exclude, such as local functions.
    """

    def __init__(self, other: Container[str] = ()) -> None:
        self._ops = frozenset(op for op in BY_FACTS if op not in other)
        # The inputs are kept alive, since an id is unique only during the lifetime of its object.
        self._found: dict[Hashable, tuple[TensorType, Sequence[TensorType]]] = {}
        self._one: dict[TensorType, TensorType] = {}

    def one(self, facts: TensorType) -> TensorType:
        """The same object for equal types."""
        return self._one.setdefault(facts, facts)

    def find(self, home: Scope, node: Node, given: Sequence[TensorType]) -> TensorType | None:
        """The type of a node's output without a declaration; None if not cached."""
        if node.op not in self._ops or len(node.outputs) > 1:
            return None
        found = self._found.get((node.op, home.versions.get(""), *map(id, given)))
        return None if found is None else found[0]

    def keep(self, home: Scope, node: Node, given: Sequence[TensorType], facts: TensorType) -> TensorType:
        """Cache a complete type that a rule inferred; returns the same object for equal types."""
        facts = self.one(facts)
        if node.op in self._ops and len(node.outputs) == 1:
            self._found[node.op, home.versions.get(""), *map(id, given)] = (facts, given)
        return facts
