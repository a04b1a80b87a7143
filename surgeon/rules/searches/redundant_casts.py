"""Casts of integral floats to integers and back, which return the same numbers."""

from collections.abc import Iterator
from math import inf
from typing import NamedTuple

import numpy as np
from onnx import TensorProto, helper

from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.op_traits import EVERY
from surgeon.ops.traits.trait_lookup import ADDITIONS, ops_with, traits_of
from surgeon.rules.matching.pattern import Found, Search
from surgeon.shapes.index_shapes import shapes_of

FARTHEST = 48  # maximum number of analysed nodes
ROUNDED = ops_with(lambda op: op.numerics.rounding_scale_slot == 0)
CASTS = ops_with(lambda op: op.data.identity_when == "same dtype")  # to a dtype that an attribute states


class _IntegerRange(NamedTuple):
    """A range of integers, with the nodes that compute them."""

    least: float
    """Lower bound."""
    largest: float
    """Upper bound."""
    nodes: frozenset[Node] = frozenset()
    """Nodes that the range depends on."""


def _whole_casts(index: Index, scope: Scope) -> Iterator[Found]:
    """A Cast to integers behind which a Cast goes back to float32, of whole numbers that the integers hold.

    Binds `x`, the integral numbers.
    """
    for node in scope.nodes_of(CASTS):
        narrow = scope.producers.get(node.inputs[0]) if node.alive else None
        if narrow is None or narrow.op not in CASTS:
            continue
        x, types = narrow.inputs[0], shapes_of(index)
        if not types.dtype(scope, x) == types.dtype(scope, node.outputs[0]) == TensorProto.FLOAT:
            continue
        limits = _limits(types.dtype(scope, node.inputs[0]))
        found = _IntegerRanges(index, scope).of(x)
        if limits is not None and found is not None and limits[0] <= found.least and found.largest <= limits[1]:
            is_shared = len(scope.readers(node.inputs[0])) > 1 or index.pin_reason(scope, node.inputs[0]) is not None
            goes, stays = ((node,), (narrow,)) if is_shared else ((narrow, node), ())
            kept = sorted((*found.nodes, *stays), key=lambda item: item.slot)
            yield Found(goes, node.outputs[:1], {"x": x}, tuple(kept))


whole_casts = Search(_whole_casts, "no Cast to integers is undone by a Cast to floats")


def _limits(dtype: int | None) -> tuple[int, int] | None:
    """The smallest and largest integer of a dtype; None if it is not an integer dtype."""
    kind = None if dtype is None else np.dtype(helper.tensor_dtype_to_np_dtype(dtype))
    if kind is None or kind.kind not in "iu":
        return None
    held = np.iinfo(kind)
    return int(held.min), int(held.max)


class _IntegerRanges:
    """Integer range analysis of tensors."""

    def __init__(self, index: Index, scope: Scope) -> None:
        self._index, self._scope, self._left = index, scope, FARTHEST

    def of(self, name: str) -> _IntegerRange | None:
        """The integer range of a tensor; None if it may hold other numbers."""
        if self._index.constants.is_constant(self._scope, name):
            return self._constant(name)
        node = self._scope.producers.get(name)
        if node is None or self._left < 1:
            return None
        self._left -= 1
        found = self._computed(node)
        return None if found is None else found._replace(nodes=found.nodes | {node})

    def _constant(self, name: str) -> _IntegerRange | None:
        values = self._index.constants.array(self._scope, name)
        if values is None or not values.size or values.dtype.kind not in "fiu" or (values != np.floor(values)).any():
            return None
        return _IntegerRange(float(values.min()), float(values.max()))

    def _computed(self, node: Node) -> _IntegerRange | None:
        if node.op in ROUNDED:
            return self._rounded(node.inputs[0])
        if node.op in CASTS:
            limits = _limits(shapes_of(self._index).dtype(self._scope, node.inputs[0]))
            return None if limits is None else _IntegerRange(*limits)
        if node.op == "Clip":
            return self._limited(node)
        if node.op in ADDITIONS:
            sides = [self.of(name) for name in node.inputs]
            left, right = sides
            if left is None or right is None:
                return None
            nodes = left.nodes | right.nodes
            return _IntegerRange(left.least + right.least, left.largest + right.largest, nodes)
        slots = traits_of(node.op).data.copies_elements
        inputs = node.inputs if slots == EVERY else [node.inputs[slot] for slot in slots if slot < len(node.inputs)]
        return self._any_of([name for name in inputs if name])

    def _rounded(self, name: str) -> _IntegerRange:
        """The range of a rounded tensor, perhaps behind a Clip with integral limits."""
        node = self._scope.producers.get(name)
        limits = None if node is None or node.op != "Clip" else self._limits_of(node)
        if node is None or limits is None:
            return _IntegerRange(-inf, inf)
        return _IntegerRange(min(limits), limits[1], frozenset((node,)))

    def _limits_of(self, node: Node) -> tuple[float, float] | None:
        """The limits of a Clip if they are integral constants."""
        if len(node.inputs) < 3 or not all(node.inputs):
            return None
        low, high = (self.of(name) for name in node.inputs[1:3])
        if low is None or high is None or low.least != low.largest or high.least != high.largest:
            return None
        return low.least, high.least

    def _limited(self, node: Node) -> _IntegerRange | None:
        """The range of a Clip, whose limits must be integral too."""
        x, limits = self.of(node.inputs[0]), self._limits_of(node)
        if x is None or limits is None:
            return None
        least, largest = (min(max(end, limits[0]), limits[1]) for end in x[:2])
        return _IntegerRange(least, largest, x.nodes)

    def _any_of(self, names: list[str]) -> _IntegerRange | None:
        found = [self.of(name) for name in names]
        if not found or any(one is None for one in found):
            return None
        known = [one for one in found if one is not None]
        nodes = frozenset().union(*(one.nodes for one in known))
        return _IntegerRange(min(one.least for one in known), max(one.largest for one in known), nodes)
