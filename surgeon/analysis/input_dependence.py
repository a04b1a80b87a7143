"""Whether a size, an index or the length of a Loop depends on a graph input: out of range, the model fails or hangs.

The value is followed through all operators, arithmetic included.  It enters the body of a Loop, Scan or SequenceMap as
the corresponding input, and leaves it through the outputs that it reaches: a loop-carried value decides nothing unless
the condition is computed from it.
"""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from onnx import ModelProto

from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope, split_op
from surgeon.ops.traits.op_traits import OpTraits
from surgeon.ops.traits.trait_lookup import OP_TRAITS, guess_traits


def _allocating_slots(op: OpTraits) -> Iterator[int]:
    yield from (*op.operands.counts, *op.operands.target_shape, *op.control.trip_counts, *op.indexing.coordinates)


def _deciding_slots(op: OpTraits) -> Iterator[int]:
    yield from (*_allocating_slots(op), *op.operands.offsets, *op.operands.sequence_lengths)
    yield from (lookup.indices for lookup in op.indexing.lookups)
    yield from () if op.shape.axes is None else (op.shape.axes.slot,)
    yield from (op.indexing.bounded_indices or ())[:1]
    yield from op.operands.key_counts or ()
    yield from () if op.indexing.boxes is None else (op.indexing.boxes,)


# By operator, the slots whose value is an index, a size, a count or a coordinate.
_DECIDING = {op.name: frozenset(_deciding_slots(op)) for op in OP_TRAITS.values()}
# Those that decide about memory: without operators that return a part of their input.
_ALLOCATING = {
    op.name: frozenset(_allocating_slots(op))
    for op in OP_TRAITS.values()
    if op.shape.expands
    or not (op.data.copies_elements or op.shape.same_type_as_input or op.dtype.later_outputs_are_indices)
}
_NONE: frozenset[int] = frozenset()
_MAX_TRIPS = 256  # maximum trip count of a Loop with any condition

_Trace: TypeAlias = tuple[Scope, str, bool]
"""A scope, a tensor in it, and whether the value is bounded for any input."""
_Key: TypeAlias = tuple[int, str, bool]


def allocates(index: Index, name: str) -> bool:
    """Whether the memory or run time of a model depends on graph input `name`."""
    return decides(index, name, set(), _ALLOCATING)


def decides(
    index: Index, name: str, harmless: set[_Key], deciding: Mapping[str, frozenset[int]] = _DECIDING
) -> bool:
    """Whether anything computed from graph input `name` is an index, a size, a count, or how long a Loop runs.

    `harmless` has the tensors known to decide nothing; new ones are added.  deciding: by operator, the slots whose
    values decide.
    """
    pending: list[_Trace] = [(index.main, name, False)]
    seen: set[_Key] = set()
    while pending:
        scope, tensor, bounded = pending.pop()
        key = (id(scope), tensor, bounded)
        if key in seen or key in harmless:
            continue
        seen.add(key)
        for node, slot in scope.uses(tensor):
            op = guess_traits(node.op)
            if not bounded and slot in deciding.get(op.name, _NONE):
                return True
            if not op.shape.reads_only_shape:
                pending.extend(_next_tensors(index, node, slot, bounded=bounded))
        if scope.owner is None:
            continue
        for position, output in enumerate(scope.output_names):
            if output == tensor:
                if position == 0 and guess_traits(scope.owner.op).control.trip_counts:
                    if not _is_limited(index, scope.owner):
                        return True  # the condition of a Loop
                    continue
                pending.extend(_leave_body(scope.owner, scope, position=position, bounded=bounded))
    harmless |= seen
    return False


def _is_limited(index: Index, node: Node) -> bool:
    """Whether a Loop ends after few iterations, whatever its condition is: its trip count is a small constant."""
    limits = [
        node.inputs[slot]
        for slot in guess_traits(node.op).control.trip_counts
        if slot < len(node.inputs) and node.inputs[slot]
    ]
    held = [index.constants.array(node.scope, name) for name in limits]
    return any(one is not None and one.size == 1 and one.item() <= _MAX_TRIPS for one in held)


def counts(model: ModelProto) -> frozenset[str]:
    """The constants of the main graph that all readers use as an index, a size or a count."""
    main = Index.over(model).main
    names = filter(main.is_read, main.initializers)
    return frozenset(name for name in names if all(map(_is_deciding, main.uses(name))))


def _is_deciding(use: tuple[Node, int]) -> bool:
    node, slot = use
    return slot in _DECIDING.get(guess_traits(node.op).name, _NONE)


def _next_tensors(index: Index, node: Node, slot: int, bounded: bool) -> Iterator[_Trace]:
    """Yield the tensors that `node` computes from the value in this slot, inside functions and bodies too."""
    called = index.called(node)
    if called is not None and slot < len(called.inputs):
        yield called, called.input_names[slot], bounded
    op = guess_traits(node.op)
    is_carried = False
    for body in index.bodies(node):
        inner = _body_input(node, slot, body)
        is_carried = is_carried or inner is not None
        yield from ((body, given, bounded) for given in (body.input_names if inner is None else (inner,)))
    if is_carried and slot not in (*op.control.trip_counts, *op.control.conditions):
        return  # it reaches the outputs through the outputs of the body
    bounded = (
        bounded
        or op.dtype.returns_indices
        or op.dtype.returns_bool
        or slot in (*op.control.selectors, *op.control.conditions)
        or _is_remainder(op, slot)
    )
    for position, output in enumerate(node.outputs):
        if output:
            yield node.scope, output, bounded or (position > 0 and op.dtype.later_outputs_are_indices)


def _body_input(node: Node, slot: int, body: Scope) -> str | None:
    """The input of a body for an input of its node; None if they do not correspond by position."""
    is_alike = not split_op(node.op)[0] and len(body.inputs) == len(node.inputs)
    return body.input_names[slot] if is_alike else None


def _leave_body(node: Node, body: Scope, position: int, bounded: bool) -> Iterator[_Trace]:
    """Yield the tensors that an output of a body becomes: an output of its node, and an input of the next iteration.

    A Loop has no output for its condition, and its body has the iteration number as first input.
    """
    is_loop = bool(guess_traits(node.op).control.trip_counts)
    if split_op(node.op)[0]:
        yield from ((node.scope, output, bounded) for output in node.outputs if output)
    elif 0 <= position - is_loop < len(node.outputs) and node.outputs[position - is_loop]:
        yield node.scope, node.outputs[position - is_loop], bounded
    again = position + is_loop
    if again < len(body.inputs):  # the first outputs of a Scan are carried; a further one adds at most one tensor
        yield body, body.input_names[again], bounded


def _is_remainder(op: OpTraits, slot: int) -> bool:
    """Whether the value is a dividend of which the remainder is returned: bounded by the divisor."""
    return bool(op.algebra.divisors) and op.algebra.family != "product" and slot not in op.algebra.divisors
