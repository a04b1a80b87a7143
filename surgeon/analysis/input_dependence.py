"""Whether a size, an index or the length of a Loop depends on a graph input: out of range, the model fails or hangs.

The value is followed through all operators, arithmetic included.  It enters the body of a Loop, Scan or SequenceMap as
the corresponding input, and leaves it through the outputs that it reaches: a loop-carried value decides nothing unless
the condition is computed from it.
"""

from collections.abc import Callable, Iterator
from functools import cache, reduce
from operator import or_

from onnx import ModelProto

from surgeon.analysis.dataflow import Dataflow
from surgeon.ir.edges import Edges, Tensor
from surgeon.ir.index import Index
from surgeon.ir.scope import Node
from surgeon.ops.traits.op_traits import OpTraits
from surgeon.ops.traits.trait_lookup import traits_of


def _counts(op: OpTraits) -> tuple[int, ...]:
    return (*op.operands.counts, *op.operands.target_shape, *op.control.trip_counts, *op.indexing.coordinates)


@cache
def _deciding_slots(op: OpTraits) -> frozenset[int]:
    """The slots whose value is an index, a size, a count or a coordinate."""
    slots = (
        *(*_counts(op), *op.operands.offsets, *op.operands.sequence_lengths, *(op.operands.key_counts or ())),
        *(*(lookup.indices for lookup in op.indexing.lookups), *(op.indexing.bounded_indices or ())[:1]),
        *(None if op.shape.axes is None else op.shape.axes.slot, op.indexing.boxes),
    )
    return frozenset(slot for slot in slots if slot is not None)


def _allocating_slots(op: OpTraits) -> tuple[int, ...]:
    """The slots that determine memory use: none of an operator that returns a part of its input."""
    is_part = op.data.copies_elements or op.shape.same_type_as_input or op.dtype.later_outputs_are_indices
    return () if is_part and not op.shape.expands else _counts(op)


_MAX_TRIPS = 256  # maximum trip count of a Loop with any condition


# The effects of a tensor, as bits: on the length of a Loop, on the memory or time of an operator, on any index or size.
_CONDITION, _MEMORY, _INDEX = 1, 2, 4


class InputDependence(Dataflow[int]):
    """The consequences of the tensors of a model."""

    def __init__(self, index: Index) -> None:
        super().__init__(0)
        self._index, self._edges = index, Edges(index, by_call=True)

    def allocates(self, name: str) -> bool:
        """Whether the memory or run time of a model depends on graph input `name`."""
        return bool(self[Tensor(self._index.main, name)] & (_MEMORY | _CONDITION))

    def decides(self, name: str) -> bool:
        """Whether anything computed from graph input `name` is an index, a size, a count, or how long a Loop runs."""
        return bool(self[Tensor(self._index.main, name)])

    def join(self, one: int, other: int) -> int:
        return one | other

    def equation(self, tensor: Tensor, fact: Callable[[Tensor], int]) -> int:
        (scope, name, calls), found = tensor, 0
        for node, slot in scope.uses(name):
            op = traits_of(node.op)
            found |= _INDEX * (slot in _deciding_slots(op)) | _MEMORY * (slot in _allocating_slots(op))
            if op.shape.reads_only_shape:
                continue
            for output, is_bounded in self._outputs(node, op, slot):
                found |= fact(Tensor(node.scope, output, calls)) & (_CONDITION if is_bounded else ~0)
            for body in () if op.control.has_bodies else self._index.bodies(node):  # of an unknown operator
                found |= reduce(or_, (fact(Tensor(body, given, calls)) for given in body.input_names), 0)
        for other in self._edges.onwards(tensor):
            found |= fact(other)
        owner = scope.owner
        if owner is not None and name in scope.output_names:
            control = traits_of(owner.op).control
            if control.trip_counts and name == scope.output_names[0] and not self._is_limited(owner):
                found |= _CONDITION
            for output in () if control.has_bodies else filter(None, owner.outputs):
                found |= fact(Tensor(owner.scope, output, calls))
        return found

    def _outputs(self, node: Node, op: OpTraits, slot: int) -> Iterator[tuple[str, bool]]:
        """The outputs that a node computes from the value in this slot, with whether they are bounded for any value."""
        is_passed_on = op.control.has_bodies and slot not in (*op.control.trip_counts, *op.control.conditions)
        if is_passed_on or self._index.called(node) is not None:
            return  # `Edges` follows the value through the function or body
        is_bounded = (
            op.dtype.returns_indices
            or op.dtype.returns_bool
            or slot in (*op.control.selectors, *op.control.conditions)
            or _is_remainder(op, slot)
        )
        for position, output in enumerate(node.outputs):
            if output:
                yield output, is_bounded or (position > 0 and op.dtype.later_outputs_are_indices)

    def _is_limited(self, node: Node) -> bool:
        """Whether a Loop ends after few iterations for any condition, because its trip count is a small constant."""
        limits = [
            node.inputs[slot]
            for slot in traits_of(node.op).control.trip_counts
            if slot < len(node.inputs) and node.inputs[slot]
        ]
        held = [self._index.constants.array(node.scope, name) for name in limits]
        return any(one is not None and one.size == 1 and one.item() <= _MAX_TRIPS for one in held)


def counts(model: ModelProto) -> frozenset[str]:
    """The constants of the main graph that all readers use as an index, a size or a count."""
    main = Index.over(model).main
    names = filter(main.is_read, main.initializers)
    return frozenset(name for name in names if all(map(_is_deciding, main.uses(name))))


def _is_deciding(use: tuple[Node, int]) -> bool:
    node, slot = use
    return slot in _deciding_slots(traits_of(node.op))


def _is_remainder(op: OpTraits, slot: int) -> bool:
    """Whether the value is a dividend of which the remainder is returned: bounded by the divisor."""
    return bool(op.algebra.divisors) and op.algebra.family != "product" and slot not in op.algebra.divisors
