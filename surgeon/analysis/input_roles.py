"""The role of each graph input, inferred from its uses.

The value is followed forwards through operators that only move or cast it (Cast, Reshape, Concat, ...) to the operators
that give it a meaning: Gather makes it an index below a table's size, Where a mask, Reshape a shape.
`input_dependence` decides whether any index or size depends on the value.  Local functions are entered with their
call's arguments, bodies of If, Loop and Scan through captures and arguments.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import NamedTuple

import numpy as np
from onnx import TensorProto

from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.op_traits import IndexedTable, OpTraits
from surgeon.ops.traits.trait_lookup import guess_traits
from surgeon.shapes.constraints.input_dims import input_dims
from surgeon.shapes.declared_types import ValueInfos

_RUNNING = 8  # assumed maximum of an unknown offset
_LONGEST_WAY = 8  # maximum number of nodes between a number and its Shape
_LONGEST_LAYOUT = 16  # maximum number of layout nodes before a table
_MAX_AXES = 8
_MAX_STEPS = 20_000  # maximum number of steps for one input; results so far are used then
_OTHER_WORDS = ("a", "two words")  # strings besides those that an input is compared with


class IndexLimit(NamedTuple):
    """A table that an input indexes, and the offset that is added to the index."""

    table: int | str | None
    """Size of the table: a number, the key of a dynamic dim, or None if unknown."""
    shift: int = 0
    """Constant offset."""
    sizes: tuple[str, ...] = ()
    """Keys of dynamic dims that are added too, such as the length of a cache."""
    beside: tuple[int | str, ...] = ()
    """For index tuples: sizes of the further axes, as far as known."""
    parts: int | str | None = 1
    """Length of the index tuples; None: unknown."""


class KeyCount(NamedTuple):
    """The number of keys that an input gives to a grouped attention."""

    new: int | str | None
    """Number of new keys: a number, the key of a dynamic dim, or None if unknown."""
    past: int | str | None
    """Number of past keys, likewise."""
    is_total: bool
    """Whether it is the total of the longest sequence; else the last valid position of each sequence."""


@dataclass(slots=True)
class InputRole:
    """How the model uses one input."""

    limits: list[IndexLimit] = field(default_factory=list)
    """Tables that it indexes."""
    keys: list[KeyCount] = field(default_factory=list)
    """Key counts that it gives to attentions."""
    flags: set[str] = field(default_factory=set)
    """Other uses: mask (truth: cast to bool; bit: subtracted from one), scores, condition, count, zero, target, trip,
    length, compared, measured (compared with a non-constant), divisor, boxes, overlap, lookup (of a table), beyond (the
    index may be out of range), closed (only `words` are allowed)."""
    words: list[str] = field(default_factory=list)
    """Strings that the model compares it with or encodes."""
    whole: int | str | None = None
    """Required sum of its elements, as for split sizes: a number or the key of a dynamic dim."""




@dataclass(frozen=True, slots=True)
class _TracedTensor:
    """A tensor that carries the value of an input."""

    scope: Scope
    """Its scope."""
    name: str
    """Its name."""
    calls: tuple[Node, ...]
    """Function calls that led to the scope."""
    shift: int = 0
    """Constant offset so far."""
    sizes: tuple[str, ...] = ()
    """Keys of dynamic dims that were added so far."""


def infer_role(index: Index, name: str) -> InputRole:
    """Follow graph input `name` and return its role."""
    role = InputRole()
    places = [_TracedTensor(index.main, name, ())]
    seen: set[tuple[Scope, str, tuple[Node, ...]]] = set()
    while places and len(seen) < _MAX_STEPS:
        place = places.pop()
        key = (place.scope, place.name, place.calls)
        if key in seen:
            continue
        seen.add(key)
        for node, slot in place.scope.uses(place.name):
            inside = replace(place, scope=node.scope)
            _record_use(index, role, node, slot=slot, place=inside)
            places.extend(_next_tensors(index, role, node, slot=slot, place=inside))
        if place.name in place.scope.output_names:
            places.extend(_leave_scope(place))
    return role


def _record_use(index: Index, role: InputRole, node: Node, slot: int, place: _TracedTensor) -> None:
    """Record how `node` uses the value in this slot."""
    op = guess_traits(node.op)
    for lookup in op.indexing.lookups:
        if slot == lookup.indices and len(node.inputs) > lookup.table and node.inputs[lookup.table]:
            role.limits.append(_limit(index, place, node, lookup))
            role.flags.add("lookup")
    if op.indexing.bounded_indices is not None and slot == op.indexing.bounded_indices[0]:
        depth = index.constants.array(node.scope, node.inputs[op.indexing.bounded_indices[1]])
        table = int(depth.ravel()[0]) if depth is not None and depth.size else None
        role.limits.append(IndexLimit(table, place.shift, place.sizes))
        role.flags.add("beyond")
    key_counts, attention = op.operands.key_counts, op.products.attention_inputs
    if key_counts is not None and slot in key_counts and attention is not None:
        past = node.inputs[attention.past_key or 0]
        sizes = _table_size(index, place, node.inputs[0], 1), _table_size(index, place, past, 2) if past else 0
        role.keys.append(KeyCount(*sizes, slot == key_counts[1]))
    if slot == op.indexing.boxes:
        role.flags.add("boxes")
        role.limits.append(IndexLimit(_table_size(index, place, node.inputs[0], 0)))
    if slot in op.operands.masks:
        role.flags.add("mask")
    if op.dtype.is_cast and _attribute(node, "to", 0) == TensorProto.BOOL:
        role.flags.update(("mask", "truth"))
    if slot in op.operands.offsets or (op.shape.axes is not None and slot == op.shape.axes.slot):
        role.flags.add("zero")
    if slot in op.operands.target_shape and slot not in op.operands.counts:
        role.flags.add("target")
    slots_by_flag = (
        *(("scores", op.operands.logits), ("count", op.operands.counts), ("length", op.operands.sequence_lengths)),
        *(("condition", op.control.conditions), ("trip", op.control.trip_counts), ("divisor", op.algebra.divisors)),
        ("overlap", op.indexing.overlapping_boxes),
    )
    role.flags.update(flag for flag, slots in slots_by_flag if slot in slots)
    if op.shape.output_count_attribute and slot in op.operands.counts:
        role.whole = _table_size(index, place, node.inputs[0], _attribute(node, "axis", 0))
    if op.algebra.compares:
        other = index.constants.array(node.scope, node.inputs[1 - slot])
        role.flags.add("compared" if other is not None else "measured")
        if other is not None and other.dtype.kind in "OSU":
            role.words.extend([*map(_text, other.flat), *_OTHER_WORDS])
    if _sign(op, slot) < 0 and _is_one(index.constants.array(node.scope, node.inputs[1 - slot])):
        role.flags.update(("mask", "bit"))
    for attribute in node.proto.attribute if op.strings.string_attributes else ():
        if attribute.name in op.strings.string_attributes:
            others = () if _attribute(node, "zeros", 1) == 0 else _OTHER_WORDS  # the encoder rejects other strings
            role.words.extend([*map(_text, (*attribute.strings, attribute.s)), *others])
            role.flags.update(() if others else ("closed",))


def _text(item: bytes | str) -> str:
    """A string of an attribute or of a tensor."""
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)


def _sign(op: OpTraits, slot: int) -> int:
    """1 or -1 for a term of a binary sum or difference, 0 for anything else."""
    return op.algebra.signs[slot] if op.algebra.family == "sum" and slot < len(op.algebra.signs) == 2 else 0


def _next_tensors(
    index: Index, role: InputRole, node: Node, slot: int, place: _TracedTensor
) -> Iterator[_TracedTensor]:
    """Yield the tensors that carry the value after `node`: its outputs, a function's or a body's inputs."""
    op = guess_traits(node.op)
    called = index.called(node)
    if called is not None:
        recursion = len(place.calls) > 32
        if slot < len(called.inputs) and not recursion:
            yield replace(place, scope=called, name=called.input_names[slot], calls=(*place.calls, node))
        return
    for body in index.bodies(node):
        # Loop's body takes (iteration, condition, carried...), its node (trip count, condition, carried...).
        own = (*op.control.trip_counts, *op.control.conditions)
        if body.attribute == "body" and slot < len(body.inputs) and slot not in own:
            yield replace(place, scope=body, name=body.input_names[slot])
    shift, sizes = place.shift, place.sizes
    sign = _sign(op, slot)
    if sign:
        added = _added_offset(index, node, slot, sign=sign, place=place)
        if added is None:
            return
        shift, sizes = shift + added[0], sizes + added[1]
    elif slot not in op.data.carried:
        return
    for output in node.outputs:
        if output:
            yield replace(place, name=output, shift=shift, sizes=sizes)


def _leave_scope(place: _TracedTensor) -> Iterator[_TracedTensor]:
    """Yield the tensors of the calling node that an output of a function body becomes."""
    owner, names = place.scope.owner, place.scope.output_names
    if place.calls and owner is None:
        *calls, node = place.calls
        for position, name in enumerate(names):
            if name == place.name and position < len(node.outputs):
                yield replace(place, scope=node.scope, name=node.outputs[position], calls=tuple(calls))
    elif owner is not None and guess_traits(owner.op).control.selectors:
        yield replace(place, scope=owner.scope, name=owner.outputs[names.index(place.name)])


def _added_offset(
    index: Index, node: Node, slot: int, sign: int, place: _TracedTensor
) -> tuple[int, tuple[str, ...]] | None:
    """Return the maximum that a sum or difference adds to the value: a number, and keys of dynamic dims.

    None if the value is not an index any more.
    """
    other = index.constants.array(node.scope, node.inputs[1 - slot])
    if guess_traits(node.op).algebra.signs[1] < 0:
        if sign < 0 or other is None or other.size == 0 or other.dtype.kind not in "iu":
            return None
        return -int(other.min()), ()
    if other is None:
        size = _size_from_shape(index, place.scope, node.inputs[1 - slot])
        if size is None:
            return _RUNNING, ()
        return (size, ()) if isinstance(size, int) else (0, (size,))
    if other.size == 0 or other.dtype.kind not in "iu":
        return (0, ()) if other.dtype.kind == "f" else None
    return int(other.max()), ()


def _size_from_shape(index: Index, scope: Scope, name: str) -> int | str | None:
    """Return the size that a tensor computes from a Shape, as `_declared_size`; None for other tensors."""
    place = 0
    for _ in range(_LONGEST_WAY):
        owner = scope.defining_scope(name) or scope
        node = owner.producers.get(name)
        if node is None or not node.inputs:
            return None
        op = guess_traits(node.op)
        if op.name == "Shape":
            return _declared_size(index, owner, node.inputs[0], _attribute(node, "start", 0) + place)
        choosing = tuple(lookup.indices for lookup in op.indexing.lookups)  # the index of a Gather
        if op.shape.axes is not None and op.shape.axes.in_order:
            choosing = (1,)  # the start of a Slice
        for slot in choosing:
            chosen = index.constants.array(owner, node.inputs[slot]) if slot < len(node.inputs) else None
            if chosen is None or chosen.size != 1:
                return None
            place += int(chosen.ravel()[0])
        if not choosing and 0 not in op.data.carried:
            return None
        scope, name = owner, node.inputs[0]
    return None


class _DeclaredTypes(dict[Scope, ValueInfos]):
    """The declared types of each scope."""

    def __missing__(self, scope: Scope) -> ValueInfos:
        return self.setdefault(scope, ValueInfos(scope))


def _declared_size(index: Index, scope: Scope, name: str, axis: int) -> int | str | None:
    """Return the size of a tensor along an axis: a number, the key of a dynamic dim, or None if unknown.

    It is that of a constant or of a declared type, also before nodes that move axes or keep the shape.
    """
    types = index.cached_analysis(_DeclaredTypes, _DeclaredTypes)
    for _ in range(_LONGEST_LAYOUT):
        owner = scope.defining_scope(name) or scope
        node, declared = owner.producers.get(name), types[owner].get(name)
        dims: Sequence[int | str] | None = index.constants.shape(owner, name)
        if dims is None and declared is not None and declared.type.tensor_type.HasField("shape"):
            dims = input_dims(declared)
        if dims is not None:
            return dims[axis] if -len(dims) <= axis < len(dims) else None
        if node is None or not node.inputs:
            return None
        if node.op == "Transpose":
            order = node.attribute("perm")
            if order is None or not -len(order.ints) <= axis < len(order.ints):
                return None
            axis = order.ints[axis]
        elif not guess_traits(node.op).keeps_shape or name != node.outputs[0]:
            return None
        scope, name = owner, node.inputs[0]
    return None


def _table_size(index: Index, place: _TracedTensor, table: str, axis: int) -> int | str | None:
    """Return the size of a table along an axis; a function's argument is looked up at the call."""
    scope, calls = place.scope, list(place.calls)
    while True:
        size = _declared_size(index, scope, table, axis)
        owner = scope.defining_scope(table) or scope
        if size is not None or not calls or table not in owner.inputs or owner.parent is not None:
            return size
        node, position = calls.pop(), owner.input_names.index(table)
        if position >= len(node.inputs):
            return None
        scope, table = node.scope, node.inputs[position]


def _limit(index: Index, place: _TracedTensor, node: Node, lookup: IndexedTable) -> IndexLimit:
    """The limits of indices into a table: its size along their axis, or along each axis of tuples."""
    table = node.inputs[lookup.table]
    if not lookup.by_tuples:
        axis = _attribute(node, lookup.axis_attribute, lookup.default_axis)
        return IndexLimit(_table_size(index, place, table, axis), place.shift, place.sizes)
    parts = _declared_size(index, place.scope, node.inputs[lookup.indices], -1)
    first = _attribute(node, "batch_dims", 0)
    sizes = (_table_size(index, place, table, axis) for axis in range(first, _MAX_AXES))
    known = [size for size in takewhile(lambda size: size is not None, sizes) if size is not None]
    return IndexLimit(known[0] if known else None, place.shift, place.sizes, beside=tuple(known[1:]), parts=parts)


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
