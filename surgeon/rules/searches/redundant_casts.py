"""Casts of integral floats to integers and back, which return the same numbers."""

from collections.abc import Callable, Iterator

from onnx import TensorProto

from surgeon.analysis.integer_range import ANY, IntegerRanges, NumberRange
from surgeon.ir.edges import Tensor
from surgeon.ir.index import Index
from surgeon.ir.scope import Scope
from surgeon.ops.traits.trait_lookup import ops_with
from surgeon.rules.matching.pattern import Found, Search
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.tensor_types import INTEGERS

FARTHEST = 48  # maximum number of analysed tensors
CASTS = ops_with("identity_when", "same dtype")  # to a dtype that an attribute states


class _FloatRanges(IntegerRanges):
    """The ranges of floats; those of integers follow from their dtype."""

    def equation(self, tensor: Tensor, fact: Callable[[Tensor], NumberRange]) -> NumberRange:
        return self.limits(tensor) or super().equation(tensor, fact)


def _whole_casts(index: Index, scope: Scope) -> Iterator[Found]:
    """A Cast to integers, and a Cast of its result back to float32, of integral numbers in the range of the integers.

    Binds `x`, the integral numbers.
    """
    dtype = shapes_of(index).dtype
    for node in scope.nodes_of(CASTS):
        narrow = scope.producers.get(node.inputs[0]) if node.alive else None
        if narrow is None or narrow.op not in CASTS:
            continue
        x = narrow.inputs[0]
        if not dtype(scope, x) == dtype(scope, node.outputs[0]) == TensorProto.FLOAT:
            continue
        if dtype(scope, node.inputs[0]) not in INTEGERS:
            continue
        ranges = _FloatRanges(index, dtype, most=FARTHEST)
        start, limits = ranges.edges.tensor(scope, x), ranges.limits(Tensor(scope, node.inputs[0]))
        found = ranges[start]
        if limits is None or not (
            found.is_integral and limits.least <= found.least and found.largest <= limits.largest
        ):
            continue
        path = [tensor for tensor in ranges.path([start], ANY.__ne__) if ranges.limits(tensor) is None]
        computed = [tensor for tensor in path if not index.constants.is_constant(tensor.scope, tensor.name)]
        is_shared = len(scope.readers(node.inputs[0])) > 1 or index.pin_reason(scope, node.inputs[0]) is not None
        goes, stays = ((node,), [narrow]) if is_shared else ((narrow, node), [])
        stays += [maker for tensor in computed for maker in ranges.edges.makers(tensor)]
        if all(kept.scope is scope for kept in stays):
            in_order = sorted(dict.fromkeys(stays), key=lambda kept: kept.slot)
            yield Found(goes, node.outputs[:1], {"x": x}, tuple(in_order))


whole_casts = Search(_whole_casts, "no Cast to integers is reversed by a Cast back to floats")
