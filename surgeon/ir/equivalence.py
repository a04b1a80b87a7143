"""What equal nodes are: nodes of one op that read the same, say the same and so compute the same.

One meaning for the matcher, for rules that look for repeated nodes, for nodes that a rewrite leaves as they are, and
for proofs.  Attributes are equal where they say the same, one that is left out its default; constants are equal to the
last bit.  Random nodes, calls of local functions and nodes that hold graphs are equal to no other.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cache
from typing import Protocol, TypeVar

from onnx import AttributeProto

from surgeon.ir.constants import ConstantValue
from surgeon.ir.function_table import LocalFunctions
from surgeon.ir.scope import Node, split_op
from surgeon.ops.schemas import schema
from surgeon.ops.traits.trait_lookup import RANDOM
from surgeon.ops.traversal import GRAPHS

DEPTH = 6  # nodes that are compared, one behind the other
Said = tuple[bytes, ...]
T = TypeVar("T", bound=Hashable)


def said_by(node: Node) -> Said | None:
    """What the attributes of a node say, as a key: equal for equal ones; None for a node that holds a graph."""
    return said_in(node.proto.attribute, node.op, node.scope.versions)


def said_in(attributes: Iterable[AttributeProto], op: str, versions: Mapping[str, int]) -> Said | None:
    """The same of attributes of an op, at versions of its domains.  A reference is to the attribute of one call."""
    items = list(attributes)
    if any(item.type in GRAPHS for item in items):
        return None
    domain, _ = split_op(op)
    defaults = _defaults(op, versions.get(domain)) if items else frozenset[bytes]()
    return tuple(sorted({item.SerializeToString(deterministic=True) for item in items} - defaults))


@cache
def _defaults(op: str, version: int | None) -> frozenset[bytes]:
    known = schema(*split_op(op), version)
    specs = known.attributes.values() if known is not None else ()
    return frozenset(spec.default.SerializeToString(deterministic=True) for spec in specs if spec.default is not None)


def is_deterministic(op: str, local: LocalFunctions) -> bool:
    """Whether nodes of an op give the same for the same: a custom op or a local function may draw random numbers."""
    return _gives_the_same(op) and not local.is_called(op)


@cache
def _gives_the_same(op: str) -> bool:
    known = schema(*split_op(op), None)
    if known is None or split_op(op)[1] in RANDOM:
        return False
    return not any(spec.type in GRAPHS for spec in known.attributes.values())


def are_equal_constants(one: ConstantValue | None, other: ConstantValue | None) -> bool:
    """Whether both are known and the same to the last bit, dtype and shape included."""
    return one is not None and other is not None and one.content == other.content


class Tensors(Protocol[T]):
    """The tensors of a model, to one who compares them: in a scope they go by names, in many by scope and name."""

    def source_of(self, tensor: T) -> T:
        """The tensor that copies of it, or casts that change nothing, hand on."""

    def key(self, tensor: T) -> Hashable:
        """What one tensor, and no other, goes by."""

    def producer(self, tensor: T) -> tuple[Node, Sequence[T], int] | None:
        """The node that makes a tensor, what it reads, and which of its outputs the tensor is."""

    def is_deterministic(self, node: Node) -> bool:
        """Whether a node gives the same for the same."""

    def constant(self, tensor: T) -> ConstantValue | None:
        """What a tensor holds, where that is fixed."""


def are_equal(tensors: Tensors[T], one: T, other: T, depth: int = DEPTH) -> bool:
    """Whether two tensors hold the same values: one tensor, equal constants, or equal nodes on equal tensors."""
    one, other = tensors.source_of(one), tensors.source_of(other)
    if tensors.key(one) == tensors.key(other):
        return True
    first, second = tensors.producer(one), tensors.producer(other)
    if first is not None and second is not None and depth:
        (a, read, place), (b, also_read, other_place) = first, second
        alike = a.op == b.op and place == other_place and len(read) == len(also_read) and tensors.is_deterministic(a)
        if alike and said_by(a) == said_by(b):
            pairs = zip(read, also_read, strict=True)
            if all(are_equal(tensors, x, y, depth - 1) for x, y in pairs):
                return True
    return are_equal_constants(tensors.constant(one), tensors.constant(other))
