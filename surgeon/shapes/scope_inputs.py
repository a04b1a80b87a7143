"""The ways in which a scope is reached: a local function has the shapes of each of its calls."""

from collections.abc import Iterator

import onnx

from surgeon.ir.index import Index
from surgeon.ir.scope import Scope, qualified_name
from surgeon.shapes.shape_inference import ShapeInference


class Entrances:
    """The shapes seen from a scope: one for the main graph, one per way of calling it for a local function.

    index: of the model.  shapes: of its main graph.
    """

    def __init__(self, index: Index, shapes: ShapeInference) -> None:
        self._index, self._shapes = index, shapes
        self._known: dict[int, list[ShapeInference]] = {}

    def into(self, scope: Scope) -> list[ShapeInference]:
        """The shapes for each way into a scope; none for a function that nothing calls."""
        function = scope.function
        if function is None:
            return [self._shapes]
        if id(function) not in self._known:
            self._known[id(function)] = []  # a function that calls itself, which ONNX forbids, ends here
            ways = {around.call: around for around in self._calling(function)}
            self._known[id(function)] = list(ways.values())
        return self._known[id(function)]

    def forget(self) -> None:
        """Look anew, as more is known of the shapes."""
        self._known.clear()

    def _calling(self, function: Scope) -> Iterator[ShapeInference]:
        """The shapes inside a local function, for each of its calls in the source."""
        proto = function.proto
        if not isinstance(proto, onnx.FunctionProto):
            return
        op = qualified_name(proto.domain, proto.name)
        for outer in self._index.scopes:
            for node in outer.by_op.get(op, ()):
                if node.original and node.proto.overload == proto.overload:
                    insides = (around.for_call(node) for around in self.into(outer))
                    yield from (inside for inside in insides if inside is not None)
