"""Shapes inside a scope: those of the main graph, or of each call of a local function."""

from collections.abc import Iterator

import onnx

from surgeon.ir.index import Index
from surgeon.ir.scope import Scope, qualified_name
from surgeon.shapes.shape_inference import ShapeInference


class ShapesByCall:
    """Shape inferences by scope: one for the main graph, one per call of a local function.

    index: index of the model.  shapes: shapes of its main graph.
    """

    def __init__(self, index: Index, shapes: ShapeInference) -> None:
        self._index, self._shapes = index, shapes
        self._known: dict[int, list[ShapeInference]] = {}

    def for_scope(self, scope: Scope) -> list[ShapeInference]:
        """The shapes for each call that leads to a scope; empty for a function without calls."""
        function = scope.function
        if function is None:
            return [self._shapes]
        if id(function) not in self._known:
            self._known[id(function)] = []  # ends recursion, which ONNX forbids
            ways = {around.call: around for around in self._calling(function)}
            self._known[id(function)] = list(ways.values())
        return self._known[id(function)]

    def forget(self) -> None:
        """Drop the cache, because more shapes are known."""
        self._known.clear()

    def _calling(self, function: Scope) -> Iterator[ShapeInference]:
        """The shapes inside a local function, for each of its calls."""
        proto = function.proto
        if not isinstance(proto, onnx.FunctionProto):
            return
        op = qualified_name(proto.domain, proto.name)
        for outer in self._index.scopes:
            for node in outer.by_op.get(op, ()):
                if node.original and node.proto.overload == proto.overload:
                    insides = (around.for_call(node) for around in self.for_scope(outer))
                    yield from (inside for inside in insides if inside is not None)
