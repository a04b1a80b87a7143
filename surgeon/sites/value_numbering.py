"""Twins: tensors that two nodes make alike from the same, which the matcher takes for one."""

from collections.abc import Callable

import numpy as np

from surgeon.indexing.origin import Origin
from surgeon.indexing.scope import Node, Scope
from surgeon.ops.records import TRANSPARENT

Key = tuple[int, str]  # a tensor of the source: the scope that makes it, by id, and its name
TWIN_DEPTH = 6


class Twins:
    """What tells whether tensors of the source hold the same values.

    key: the identity of a tensor as a scope sees it.  may_hold: whether a node can be part of a proof.
    """

    def __init__(self, origin: Origin, key: Callable[[Scope, str], Key], may_hold: Callable[[Node], bool]) -> None:
        self._origin, self._key, self._may_hold = origin, key, may_hold

    def are_equal(self, one: tuple[Scope, str], other: tuple[Scope, str], depth: int = TWIN_DEPTH) -> bool:
        """Whether two tensors hold the same values, as the matcher sees it: made alike from the same."""
        if not one[1] or not other[1]:
            return one[1] == other[1]
        one, other = self._behind(*one), self._behind(*other)
        if self._key(*one) == self._key(*other):
            return True
        first, second = self._origin.producer(*one), self._origin.producer(*other)
        if first is None or second is None:
            return self._same_constant(one, other)
        a, b = first[1], second[1]
        if not depth or a.op != b.op or len(a.inputs) != len(b.inputs) or not (self._may_hold(a) and self._may_hold(b)):
            return self._same_constant(one, other)
        if a.outputs.index(one[1]) != b.outputs.index(other[1]) or _attributes(a) != _attributes(b):
            return self._same_constant(one, other)
        pairs = zip(self._origin.inputs(a), self._origin.inputs(b), strict=True)
        return all(self.are_equal((first[0], x), (second[0], y), depth - 1) for x, y in pairs)

    def _behind(self, scope: Scope, name: str) -> tuple[Scope, str]:
        """The tensor behind copies of it."""
        found = self._origin.producer(scope, name)
        while found is not None and found[1].op in TRANSPARENT and name == found[1].outputs[0]:
            scope, name = found[0], self._origin.inputs(found[1])[0]
            found = self._origin.producer(scope, name)
        return scope, name

    def _same_constant(self, one: tuple[Scope, str], other: tuple[Scope, str]) -> bool:
        found = [self._origin.constants.get(self._origin.scope(scope), name) for scope, name in (one, other)]
        arrays = [value.array for value in found if value is not None]
        return len(arrays) == 2 and arrays[0].dtype == arrays[1].dtype and bool(np.array_equal(arrays[0], arrays[1]))


def _attributes(node: Node) -> list[bytes]:
    return sorted(item.SerializeToString() for item in node.proto.attribute)
