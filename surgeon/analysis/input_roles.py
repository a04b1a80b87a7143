"""The role of each graph input, inferred from its uses.

Roles are solved backwards.  The role of a tensor follows from the operators that give it a meaning: it is an index
below a table's size for a Gather, a mask for a Where, a shape for a Reshape.  It also has the roles of the tensors that
hold its value after operators that only move or cast it (Cast, Reshape, Concat, ...), also in bodies and functions.
`input_dependence` decides whether any index or size depends on the value.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple, TypeVar

import numpy as np
from onnx import TensorProto

from surgeon.analysis.dataflow import Dataflow
from surgeon.ir.edges import Edges, Tensor
from surgeon.ir.index import Index
from surgeon.ir.scope import Node
from surgeon.ops.traits.op_traits import NO_TABLE, IndexedTable, OpTraits
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.shapes.algebra.size_expressions import Size
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.shape_inference import ShapeInference

_RUNNING = 8  # assumed maximum of an unknown offset
_MAX_AXES = 8
_MAX_TENSORS = 100_000  # maximum number of tensors to look at; others have no role then
_OTHER_WORDS = ("a", "two words")  # further strings, apart from those that an input is compared with
T = TypeVar("T")


class IndexLimit(NamedTuple):
    """A table that an input indexes, and the offset that is added to the index."""

    table: int | str | None
    """Size of the table: a number, an expression of dynamic dims, or None if unknown."""
    shift: int = 0
    """Constant offset."""
    sizes: tuple[str, ...] = ()
    """Expressions of dynamic dims that are added too, such as the length of a cache."""
    beside: tuple[int | str, ...] = ()
    """For index tuples: sizes of the further axes, as far as known."""
    parts: int | str | None = 1
    """Length of the index tuples; None: unknown."""


class KeyCount(NamedTuple):
    """The number of keys that an input gives to a grouped attention."""

    new: int | str | None
    """Number of new keys: a number, an expression of dynamic dims, or None if unknown."""
    past: int | str | None
    """Number of past keys, likewise."""
    is_total: bool
    """Whether it is the total of the longest sequence; else the last valid position of each sequence."""


class InputRole(NamedTuple):
    """How the model uses an input, or another tensor."""

    limits: tuple[IndexLimit, ...] = ()
    """Tables that it indexes."""
    keys: tuple[KeyCount, ...] = ()
    """Key counts that it gives to attentions."""
    flags: frozenset[str] = frozenset()
    """Other uses: mask (truth: cast to bool; bit: subtracted from one), scores, condition, count, zero, target, trip,
    length, compared, measured (compared with a non-constant), divisor, boxes, overlap, lookup (of a table), beyond (the
    index may be out of range), closed (only `words` are allowed)."""
    words: tuple[str, ...] = ()
    """Strings that the model compares it with or encodes."""
    whole: int | str | None = None
    """Required sum of its elements, as for split sizes: a number or an expression of dynamic dims."""

    def with_words(self, words: Iterable[str]) -> "InputRole":
        """This role with further words."""
        return self._replace(words=_union(self.words, words))

    def before_sum(self, number: int, sizes: tuple[str, ...]) -> "InputRole":
        """The role of a tensor that has this role after a number and sizes are added."""
        limits = (limit._replace(shift=limit.shift + number, sizes=sizes + limit.sizes) for limit in self.limits)
        return self._replace(limits=tuple(limits)) if self.limits else self

    def before_iteration(self) -> "InputRole":
        """The role of a tensor that has this role in the next iteration: the increment of an iteration is unknown."""
        return self._replace(limits=_union((), map(_running, self.limits))) if self.limits else self


_NO_ROLE = InputRole()


class InputRoles(Dataflow[InputRole]):
    """The roles of the tensors of a model."""

    def __init__(self, index: Index) -> None:
        super().__init__(_NO_ROLE, most=_MAX_TENSORS)
        self._index, self._constants, self._edges = index, index.constants, Edges(index, by_call=True)

    def of_input(self, name: str) -> InputRole:
        """The role of an input of the main graph."""
        return self[Tensor(self._index.main, name)]

    def join(self, one: InputRole, other: InputRole) -> InputRole:
        if other == _NO_ROLE or one == other:
            return one
        return InputRole(
            limits=_union(one.limits, other.limits),
            keys=_union(one.keys, other.keys),
            flags=one.flags | other.flags,
            words=_union(one.words, other.words),
            whole=other.whole if one.whole is None else one.whole,
        )

    def equation(self, tensor: Tensor, fact: Callable[[Tensor], InputRole]) -> InputRole:
        role = _NO_ROLE
        for node, slot in tensor.scope.uses(tensor.name):
            role = self.join(role, self._role_of_use(node, slot, tensor.calls))
            added = self._added(node, slot, tensor.calls)
            for output in node.outputs if added is not None else ():
                if output and added is not None:
                    after = fact(Tensor(node.scope, output, tensor.calls))
                    role = self.join(role, after.before_sum(*added))
        for other in self._edges.onwards(tensor):
            after = fact(other)
            role = self.join(role, after.before_iteration() if other.scope is tensor.scope else after)
        return role

    def _role_of_use(self, node: Node, slot: int, calls: tuple[Node, ...]) -> InputRole:
        """The role that a node gives to the tensor in this slot."""
        op, read = traits_of(node.op), [Tensor(node.scope, name, calls) for name in node.inputs]
        limits, keys, words, flags = list[IndexLimit](), list[KeyCount](), list[str](), set(_flags(node, op, slot))
        for lookup in op.indexing.lookups:
            if slot == lookup.indices and lookup.table == NO_TABLE:
                limits.append(IndexLimit(None))
            elif slot == lookup.indices and len(read) > lookup.table and read[lookup.table].name:
                limits.append(self._limit(node, lookup, read[lookup.table]))
                flags.add("lookup")
        if op.indexing.bounded_indices is not None and slot == op.indexing.bounded_indices[0]:
            depth = self._constant(node, op.indexing.bounded_indices[1])
            limits.append(IndexLimit(int(depth.ravel()[0]) if depth is not None and depth.size else None))
            flags.add("beyond")
        key_counts, attention = op.operands.key_counts, op.products.attention_inputs
        if key_counts is not None and slot in key_counts and attention is not None:
            past = read[attention.past_key or 0]
            sizes = self._table_size(read[0], 1), self._table_size(past, 2) if past.name else 0
            keys.append(KeyCount(*sizes, slot == key_counts[1]))
        if slot == op.indexing.boxes:
            flags.add("boxes")
            limits.append(IndexLimit(self._table_size(read[0], 0)))
        is_counted = op.shape.output_count_attribute and slot in op.operands.counts
        whole = self._table_size(read[0], _attribute(node, "axis", 0)) if is_counted else None
        if op.algebra.compares:
            other = self._constant(node, 1 - slot)
            flags.add("compared" if other is not None else "measured")
            if other is not None and other.dtype.kind in "OSU":
                words += [*map(_text, other.flat), *_OTHER_WORDS]
        if _sign(op, slot) < 0 and _is_one(self._constant(node, 1 - slot)):
            flags.update(("mask", "bit"))
        for attribute in node.proto.attribute if op.strings.string_attributes else ():
            if attribute.name in op.strings.string_attributes:
                others = () if _attribute(node, "zeros", 1) == 0 else _OTHER_WORDS  # the encoder rejects other strings
                words += [*map(_text, (*attribute.strings, attribute.s)), *others]
                flags.update(() if others else ("closed",))
        return InputRole(tuple(limits), tuple(keys), frozenset(flags), tuple(words), whole=whole)

    def _constant(self, node: Node, slot: int) -> np.ndarray | None:
        """The value of an input of a node, if it is a constant."""
        return self._constants.array(node.scope, node.inputs[slot])

    def _added(self, node: Node, slot: int, calls: tuple[Node, ...]) -> tuple[int, tuple[str, ...]] | None:
        """The maximum that a node adds to the value in this slot: a number, and expressions of dynamic dims.

        None if no output contains the value, or none as an index.
        """
        op = traits_of(node.op)
        sign = 0 if self._index.called(node) is not None else _sign(op, slot)
        if not sign:
            return (0, ()) if slot in op.data.carried and self._index.called(node) is None else None
        other = self._constant(node, 1 - slot)
        if op.algebra.signs[1] < 0:
            if sign < 0 or other is None or other.size == 0 or other.dtype.kind not in "iu":
                return None
            return -int(other.min()), ()
        if other is None:
            size = self._size_value(Tensor(node.scope, node.inputs[1 - slot], calls))
            if size is None:
                return _RUNNING, ()
            return (size, ()) if isinstance(size, int) else (0, (size,))
        if other.size == 0 or other.dtype.kind not in "iu":
            return (0, ()) if other.dtype.kind == "f" else None
        return int(other.max()), ()

    def _shapes(self, calls: tuple[Node, ...]) -> ShapeInference | None:
        """The shapes of the main graph, or inside the function that these calls lead to."""
        shapes: ShapeInference | None = shapes_of(self._index)
        for call in calls:
            shapes = None if shapes is None else shapes.for_call(call)
        return shapes

    def _table_size(self, table: Tensor, axis: int) -> int | str | None:
        """The size of a tensor along an axis: a number, an expression of dynamic dims, or None if unknown."""
        shapes = self._shapes(table.calls)
        shape = None if shapes is None else shapes.shape(table.scope, table.name)
        return _number_or_text(shape[axis]) if shape is not None and -len(shape) <= axis < len(shape) else None

    def _size_value(self, tensor: Tensor) -> int | str | None:
        """The size in a tensor of one element, likewise."""
        shapes = self._shapes(tensor.calls)
        value = None if shapes is None else shapes.value(tensor.scope, tensor.name)
        return _number_or_text(value.item()) if value is not None and value.size == 1 else None

    def _limit(self, node: Node, lookup: IndexedTable, table: Tensor) -> IndexLimit:
        """The limits of indices into a table: its size along their axis, or along each axis of tuples."""
        if not lookup.by_tuples:
            return IndexLimit(self._table_size(table, _attribute(node, lookup.axis_attribute, lookup.default_axis)))
        parts = self._table_size(table._replace(name=node.inputs[lookup.indices]), -1)
        first = _attribute(node, "batch_dims", 0)
        sizes = (self._table_size(table, axis) for axis in range(first, _MAX_AXES))
        known = [size for size in takewhile(lambda size: size is not None, sizes) if size is not None]
        return IndexLimit(known[0] if known else None, beside=tuple(known[1:]), parts=parts)


def _union(one: Iterable[T], other: Iterable[T]) -> tuple[T, ...]:
    """The elements of both, each once."""
    return tuple(dict.fromkeys((*one, *other)))


def _number_or_text(size: Size) -> int | str | None:
    """A size as a number or as text; None for one that depends on the data."""
    return size if isinstance(size, int) else None if "?" in str(size) else str(size)


def _running(limit: IndexLimit) -> IndexLimit:
    """A limit whose offset, if any, is added repeatedly."""
    if not limit.shift and not limit.sizes:
        return limit
    return limit._replace(shift=-_RUNNING if limit.shift < 0 else _RUNNING, sizes=())


def _flags(node: Node, op: OpTraits, slot: int) -> Iterator[str]:
    """The uses that follow from the operator only."""
    slots_by_flag = (
        *(("scores", op.operands.logits), ("count", op.operands.counts), ("length", op.operands.sequence_lengths)),
        *(("condition", op.control.conditions), ("trip", op.control.trip_counts), ("divisor", op.algebra.divisors)),
        *(("mask", op.operands.masks), ("overlap", op.indexing.overlapping_boxes), ("zero", op.operands.offsets)),
        ("zero", () if op.shape.axes is None else (op.shape.axes.slot,)),
    )
    yield from (flag for flag, slots in slots_by_flag if slot in slots)
    if op.dtype.is_cast and _attribute(node, "to", 0) == TensorProto.BOOL:
        yield from ("mask", "truth")
    if slot in op.operands.target_shape and slot not in op.operands.counts:
        yield "target"


def _text(item: bytes | str) -> str:
    """A string of an attribute or of a tensor."""
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)


def _sign(op: OpTraits, slot: int) -> int:
    """1 or -1 for a term of a binary sum or difference, 0 for anything else."""
    return op.algebra.signs[slot] if op.algebra.family == "sum" and slot < len(op.algebra.signs) == 2 else 0


def _attribute(node: Node, name: str, default: int) -> int:
    """Return an integer attribute or its default."""
    return next((int(a.i) for a in node.proto.attribute if a.name == name and not a.ref_attr_name), default)


def _is_one(value: np.ndarray | None) -> bool:
    """Whether a constant is 1 everywhere."""
    return value is not None and value.size > 0 and value.dtype.kind in "iuf" and bool((value == 1).all())


_NAMED: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("mask", re.compile(r"mask", re.IGNORECASE)),
    ("position", re.compile(r"position", re.IGNORECASE)),
    ("length", re.compile(r"length|_lens?$|^lens?$", re.IGNORECASE)),
)


def named_role(name: str) -> str | None:
    """Return the role that a name suggests: mask, position, length, or None."""
    return next((kind for kind, expression in _NAMED if expression.search(name)), None)
