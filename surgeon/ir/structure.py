"""Numbers for the content of nodes and the wiring of regions: equal numbers mean equal structure.

Content is interned, so equal numbers are equal without doubt; a number is valid for one `Structure`.  Nothing needs an
update while a graph is edited: the content of a node never changes, and a form is computed on demand.
"""

from collections.abc import Hashable, Sequence
from hashlib import blake2b
from itertools import count
from typing import NamedTuple

from surgeon.ir.equivalence import attribute_key
from surgeon.ir.scope import Node, Scope, split_op
from surgeon.ops.schemas import schema
from surgeon.ops.traversal import without_absent_end

_LONG = 64  # bytes; longer content is kept as a digest


class Form(NamedTuple):
    """A region up to the names of its tensors."""

    number: int
    """Equal for equal structure."""
    names: tuple[str, ...]
    """The names of the tensors, in order of first use."""


class Structure:
    """The numbers of one index, or of several that are compared.

    bare: numbers of nodes of ops without attributes, by op, counts of inputs and outputs, and scope: most nodes.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self.bare: dict[tuple[str, int, int, Scope], int] = {}
        self._stated: dict[Node, int] = {}
        self._meant: dict[tuple[int, tuple[int, int], Scope], int | None] = {}

    def number(self, content: Hashable) -> int:
        """A number that is equal for equal content."""
        return self._numbers.setdefault(content, len(self._numbers))

    def stated(self, node: Node) -> int:
        """The op of a node, its overload, the counts of its inputs and outputs, and its attributes as written."""
        key = node.op, len(node.inputs), len(node.outputs), node.scope
        found = self.bare.get(key)
        if found is None:
            found = self._stated.get(node)
        if found is None and _is_bare(node):
            found = self.bare[key] = self.number((*key[:3], (), ""))
        elif found is None:
            proto = node.proto
            said = sorted(short(item.SerializeToString(deterministic=True)) for item in proto.attribute)
            found = self._stated[node] = self.number((*key[:3], tuple(said), proto.overload))
        return found

    def meant(self, node: Node) -> int | None:
        """The same without default attributes and absent last inputs; None for a node with a graph attribute."""
        counts = len(without_absent_end(node.inputs)), len(node.outputs)
        key = self.stated(node), counts, node.scope
        if key not in self._meant:
            said = attribute_key(node)
            self._meant[key] = None if said is None else self.number((node.op, *counts, said, node.proto.overload))
        return self._meant[key]

    def form(self, kinds: Hashable, names: Sequence[str]) -> Form:
        """A region.  kinds: the content of its nodes.  names: the tensors that each reads and produces, in order."""
        places = dict(zip(dict.fromkeys(names), count(), strict=False))
        return Form(self.number((kinds, tuple(map(places.__getitem__, names)))), tuple(places))


def short(data: bytes) -> bytes:
    """The bytes, or their digest if they are long."""
    return data if len(data) <= _LONG else blake2b(data, digest_size=32).digest()


def _is_bare(node: Node) -> bool:
    """Whether nodes of this op have no attributes."""
    domain, op = split_op(node.op)
    known = schema(domain, op, node.scope.versions.get(domain))
    return known is not None and not known.attributes
