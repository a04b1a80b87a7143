"""Converts a pattern to a diagram, to draw it next to a model."""

from typing import Any

import numpy as np

from surgeon.display.pictures.diagram import Box, Diagram, DiagramEdge, array_text, shortened, type_text
from surgeon.ops.schemas import knows_domain, schema
from surgeon.ops.schemas.attribute_values import dtype_number
from surgeon.rules.matching.pattern import AnyOf, LiteralValue, NamedValue, NodeOutput, NodePattern, Pattern, Value, Var

SHOWN_ELEMENTS = 4  # elements of a constant that is shown by value


def pattern_diagram(pattern: Pattern, title: str, marked: str = "") -> Diagram:
    """The diagram of a pattern, with the first form of each tensor.  marked: file:line of the node to highlight."""
    return _PatternReader(pattern, title, marked).diagram


class _PatternReader:
    """Converts the values of one pattern to boxes and edges, inputs first."""

    def __init__(self, pattern: Pattern, title: str, marked: str) -> None:
        self.diagram, self._marked = Diagram(title), marked
        self._boxes: dict[object, int] = {}
        for place, value in enumerate(pattern.outputs):
            at, name = self._box(value)
            self.diagram.edges.append(DiagramEdge(at, len(self.diagram.boxes), name, ""))
            self.diagram.boxes.append(Box("output", "output" if len(pattern.outputs) == 1 else f"output {place}"))

    def _box(self, value: Value) -> tuple[int, str]:
        """The box of a value, and a name for its tensor."""
        value = _without_names(value)
        if isinstance(value, NodeOutput):
            return self._operation(value.operation), f"{id(value.operation)}:{value.position}"
        if id(value) not in self._boxes:
            self._boxes[id(value)] = len(self.diagram.boxes)
            title = value.name if isinstance(value, Var) else _literal(value)
            self.diagram.boxes.append(Box("input" if isinstance(value, Var) else "constant", shortened(title)))
        return self._boxes[id(value)], str(id(value))

    def _operation(self, operation: NodePattern) -> int:
        if id(operation) in self._boxes:
            return self._boxes[id(operation)]
        known = schema(operation.domain, operation.op, None)
        formals = [item.name for item in known.inputs] if known is not None else []
        rows, arriving = [], []
        for place, given in enumerate(operation.inputs):
            value = None if given is None else _without_names(given)
            formal = formals[place] if place < len(formals) else f"input {place}"
            if isinstance(value, LiteralValue):
                rows.append(shortened(f"{formal}: {_literal(value)}"))
            elif value is not None:
                arriving.append(self._box(value))
        rows += [shortened(f"{name}={_attribute(item)}") for name, item in operation.attributes.items()]
        if operation.rest is not None:
            rows.append(f"*{operation.rest.name}")
        kind = "onnx" if not operation.domain else "runtime" if knows_domain(operation.domain) else "foreign"
        place = self._boxes[id(operation)] = len(self.diagram.boxes)
        is_marked = bool(self._marked) and operation.where == self._marked
        box = Box(kind, operation.op, operation.domain, rows=tuple(rows), hint=operation.where, is_marked=is_marked)
        self.diagram.boxes.append(box)
        self.diagram.edges += [DiagramEdge(source, place, name, "") for source, name in arriving]
        return place


def _without_names(value: Value) -> Var | LiteralValue | NodeOutput:
    """A value without its name; the first of several forms."""
    while isinstance(value, (NamedValue, AnyOf)):
        value = value.value if isinstance(value, NamedValue) else value.forms[0]
    return value


def _literal(value: LiteralValue) -> str:
    if value.value.size <= SHOWN_ELEMENTS:
        return array_text(value.value)
    return type_text(dtype_number(value.value.dtype.name), value.value.shape)


def _attribute(value: Any) -> str:
    if isinstance(value, Var):
        return value.name
    if isinstance(value, np.ndarray):
        return array_text(value) if value.size <= SHOWN_ELEMENTS else f"{value.dtype}{list(value.shape)}"
    return repr(value.decode(errors="replace") if isinstance(value, bytes) else value)
