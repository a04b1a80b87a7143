"""Patterns as text: a traced function as nested calls."""

from typing import Any

import numpy as np

from surgeon.rules.matching.pattern import AnyOf, LiteralValue, NamedValue, NodeOutput, NodePattern, Pattern, Value, Var


def draw(pattern: Pattern, *, written: bool = False) -> list[str]:
    """A traced function as nested calls; a tensor that is used twice has its own line above.

    written: as a replacement, with the first of several forms.
    """
    drawing = _Drawing(pattern, written)
    results = [drawing.text(value) for value in pattern.outputs]
    return [*drawing.lines, ", ".join(results)]


class _Drawing:
    """Converts the values of one pattern to text."""

    def __init__(self, pattern: Pattern, written: bool) -> None:
        self._written = written
        self._helper_calls = {} if written else pattern.helper_calls
        self._used_twice = _used_twice(pattern, written)
        self._names: dict[int, str] = {}
        self.lines: list[str] = []

    def text(self, value: Value | None) -> str:
        """A value as an expression."""
        if value is None:
            return "-"
        call = self._helper_calls.get(id(value))
        if call is not None:
            return f"{call.word}({', '.join(self._argument(item) for item in call.arguments)})"
        if isinstance(value, Var):
            return f"*{value.name}" if value.kind == "rest" else value.name
        if isinstance(value, LiteralValue):
            return number_text(value.value)
        if isinstance(value, AnyOf):
            return self._any_of(value)
        if isinstance(value, NamedValue):
            inner = self.text(value.value)
            return inner if value.name.startswith("_") else f"{value.name}: {inner}"
        return self._output(value)

    def _argument(self, item: Any) -> str:
        return self.text(item) if isinstance(item, Value) else _attribute_text(item)

    def _any_of(self, value: AnyOf) -> str:
        first = value.forms[0]
        if self._written:
            return self.text(first)
        if isinstance(first, NodeOutput) and _is_optional(value):
            return f"[{_op(first.operation)}]({self.text(value.forms[1])})"
        return f"({' | '.join(self.text(form) for form in value.forms)})"

    def _output(self, value: NodeOutput) -> str:
        operation = value.operation
        several = f"[{value.position}]" if operation.outputs > 1 else ""
        name = self._names.get(id(operation))
        if name is None:
            call = self._call(operation)
            if id(operation) not in self._used_twice:
                return call + several
            name = self._names[id(operation)] = f"t{len(self._names) + 1}"
            self.lines.append(f"{name} = {call}")
        return name + several

    def _call(self, operation: NodePattern) -> str:
        parts = [self.text(item) for item in operation.inputs]
        if operation.rest is not None:
            parts.append(f"*{operation.rest.name}")
        parts += [f"{name}={_attribute_text(item)}" for name, item in operation.attributes.items()]
        if operation.others is not None:
            parts.append(f"**{operation.others.name}")
        return f"{_op(operation)}({', '.join(parts)})"


def number_text(value: Any) -> str:
    """A constant: numbers with up to eight digits, a larger array by shape and dtype."""
    array = np.asarray(value)
    if array.size > 4:
        return f"{array.dtype}{list(array.shape)}"
    if array.ndim:
        return f"[{', '.join(number_text(item) for item in array.ravel())}]"
    item = array.item()
    return f"{item:.8g}" if isinstance(item, float) else str(item)


def _op(operation: NodePattern) -> str:
    return f"{operation.domain}::{operation.op}" if operation.domain else operation.op


def _attribute_text(value: Any) -> str:
    if isinstance(value, Var):
        return value.name
    if isinstance(value, bytes):
        return f'"{value.decode(errors="replace")}"'
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (int, float, np.ndarray, np.generic)):
        return number_text(value)
    return str(value)


def _is_optional(value: AnyOf) -> bool:
    """Whether the two forms are a node and its first input."""
    first = value.forms[0]
    return len(value.forms) == 2 and isinstance(first, NodeOutput) and first.operation.inputs[:1] == (value.forms[1],)


def _used_twice(pattern: Pattern, written: bool) -> set[int]:
    """The operations that are used more than once in a pattern."""
    uses: dict[int, int] = {}
    values: list[Value | None] = list(pattern.outputs)
    expanded: set[int] = set()
    while values:
        value = values.pop()
        call = None if written else pattern.helper_calls.get(id(value))
        if call is not None:
            values.extend(item for item in call.arguments if isinstance(item, Value))
        elif isinstance(value, NodeOutput):
            key = id(value.operation)
            uses[key] = uses.get(key, 0) + 1
            if key in expanded:
                continue
            expanded.add(key)
            values.extend(value.operation.inputs)
        elif isinstance(value, AnyOf):
            values.extend(value.forms[:1] if written else value.forms[1:] if _is_optional(value) else value.forms)
        elif isinstance(value, NamedValue):
            values.append(value.value)
    return {key for key, count in uses.items() if count > 1}
