"""Equality of nodes: nodes of one op with equal inputs and attributes compute the same.

Shared by the matcher, by rules that remove duplicate nodes, by rewrites that keep nodes unchanged, and by proofs.
Attributes are equal if their values are, with defaults for absent ones; constants are equal if bit-identical.  Random
nodes, calls of local functions and nodes with graph attributes equal no other node.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cache
from typing import Protocol, TypeVar

from onnx import AttributeProto

from surgeon.ir.constants import ConstantValue
from surgeon.ir.function_table import LocalFunctions
from surgeon.ir.scope import Node, split_op
from surgeon.ops.schemas import is_meaningless, schema
from surgeon.ops.traits.trait_lookup import RANDOM
from surgeon.ops.traversal import GRAPHS

DEPTH = 6  # maximum depth of compared nodes
AttributeKey = tuple[bytes, ...]
T = TypeVar("T", bound=Hashable)


def attribute_key(node: Node) -> AttributeKey | None:
    """The attributes of a node as a key: equal for equal attributes; None for a node with a graph attribute."""
    return key_of_attributes(node.proto.attribute, node.op, node.scope.versions)


def key_of_attributes(
    attributes: Iterable[AttributeProto], op: str, versions: Mapping[str, int]
) -> AttributeKey | None:
    """The same for attributes of an op, at the given opset versions.  A reference is valid within one function."""
    domain, name = split_op(op)
    items = [item for item in attributes if not is_meaningless(domain, name, item.name)]
    if any(item.type in GRAPHS for item in items):
        return None
    defaults = _defaults(op, versions.get(domain)) if items else frozenset[bytes]()
    return tuple(sorted({item.SerializeToString(deterministic=True) for item in items} - defaults))


@cache
def _defaults(op: str, version: int | None) -> frozenset[bytes]:
    known = schema(*split_op(op), version)
    specs = known.attributes.values() if known is not None else ()
    return frozenset(spec.default.SerializeToString(deterministic=True) for spec in specs if spec.default is not None)


def is_deterministic(op: str, local: LocalFunctions) -> bool:
    """Whether nodes of an op give equal outputs for equal inputs; custom ops and local functions may be random."""
    return _gives_the_same(op) and not local.is_called(op)


@cache
def _gives_the_same(op: str) -> bool:
    known = schema(*split_op(op), None)
    if known is None or op in RANDOM:
        return False
    return not any(spec.type in GRAPHS for spec in known.attributes.values())


def are_equal_constants(one: ConstantValue | None, other: ConstantValue | None) -> bool:
    """Whether both are known and bit-identical, with equal dtypes and shapes."""
    return one is not None and other is not None and one.content == other.content


class Tensors(Protocol[T]):
    """Access to the tensors of a model for a comparison: by name in one scope, by scope and name in several."""

    def source_of(self, tensor: T) -> T:
        """The source of a tensor, before copies and casts that change nothing."""

    def key(self, tensor: T) -> Hashable:
        """A key that identifies one tensor."""

    def producer(self, tensor: T) -> tuple[Node, Sequence[T], int] | None:
        """The producer of a tensor, its inputs, and the output index of the tensor."""

    def is_deterministic(self, node: Node) -> bool:
        """Whether a node gives equal outputs for equal inputs."""

    def constant(self, tensor: T) -> ConstantValue | None:
        """The value of a constant; None for other tensors."""


def are_equal(tensors: Tensors[T], one: T, other: T, depth: int = DEPTH) -> bool:
    """Whether two tensors hold the same values: one tensor, equal constants, or equal nodes on equal tensors."""
    one, other = tensors.source_of(one), tensors.source_of(other)
    if tensors.key(one) == tensors.key(other):
        return True
    first, second = tensors.producer(one), tensors.producer(other)
    if first is not None and second is not None and depth:
        (a, read, place), (b, also_read, other_place) = first, second
        alike = a.op == b.op and place == other_place and len(read) == len(also_read) and tensors.is_deterministic(a)
        if alike and attribute_key(a) == attribute_key(b):
            pairs = zip(read, also_read, strict=True)
            if all(are_equal(tensors, x, y, depth - 1) for x, y in pairs):
                return True
    return are_equal_constants(tensors.constant(one), tensors.constant(other))
