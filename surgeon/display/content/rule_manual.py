"""The manual of a rule: its patterns and replacements, drawn from the rule itself."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from surgeon.ops.builder.composites import find_composite
from surgeon.ops.schemas import knows_domain
from surgeon.rules.definition_checks import try_trace
from surgeon.rules.matching.pattern import AnyOf, LiteralValue, NamedValue, NodeOutput, NodePattern, Pattern, Value, Var
from surgeon.rules.rule import ReplacementForm, Rule, RulePlan
from surgeon.rules.tracing.tracer import trace
from surgeon.target_registry import takers

ANY_OPSET = 10**6  # an opset that every form supports


def manual_lines(rule: Rule) -> Iterator[str]:
    """The manual as lines; headings are not indented."""
    yield f"{rule.name}  ({rule.where})"
    yield from (f"  {line}".rstrip() for line in (rule.doc or "This rule has no docstring.").splitlines())
    if rule.approximate:
        yield (
            f"  It is approximate: it may change outputs by {rule.approximate:g}, and by {rule.approximate:g} of their "
            "largest magnitude."
        )
    yield from (f"  It differs on purpose, for inputs of {kind}: {how}." for kind, how in rule.differs.items())
    if rule.dtypes:
        yield f"  It is for {' or '.join(rule.dtypes)} alone."
    yield ""
    yield "Before"
    if rule.search is not None:
        yield f"  found by a search: {rule.search.summary}"
    for function in rule.patterns:
        note = _first_line(function.__doc__)
        yield f"  {function.__name__}{': ' + note if note else ''}"
        for place, pattern in enumerate(trace(function)):
            if place:
                yield "   or"
            yield from (f"    {line}" for line in draw(pattern))
    yield ""
    yield "After"
    for target in rule.targets:
        yield from (f"  {line}" for line in _target_lines(rule, target))
    for form in (form for form in rule.forms if not any(takers(form.kind))):
        yield f"  {form.kind:<11}{form_lines(form)[-1]}  (no installed target takes it)"
    patterns = [pattern for function in rule.patterns for pattern in trace(function)]
    words_used = sorted({call.word for pattern in patterns for call in pattern.helper_calls.values()})
    if words_used:
        yield ""
        yield "Words"
        yield from (f"  {word}: {_first_line(find_composite(word).__doc__)}" for word in words_used)
    if rule.conditions:
        yield ""
        yield "Conditions"
        for condition in rule.conditions:
            note = _first_line(condition.__doc__)
            yield f"  {condition.__name__}{': ' + note if note else ''}"


def summary(rule: Rule) -> str:
    """The first line of the docstring."""
    return _first_line(rule.doc) + ("" if rule.is_exact else " (approximate)")


def targets_text(rule: Rule) -> str:
    """The targets of a rule, each with its lowest opset."""
    targets = []
    for name in rule.targets:
        forms = list(_forms(rule, name))
        least = min((form.opset for form in forms), default=0)
        if forms:
            targets.append(name if least <= 1 else f"{name} (opset {least})")
    return ", ".join(targets)


def _forms(rule: Rule, target: str) -> Iterator[ReplacementForm]:
    """The forms that a rule may write for a target, newest first."""
    below = ANY_OPSET
    while below > 0:
        plan = rule.plan(target, below)
        if not isinstance(plan, RulePlan) or plan.needs is not None:
            return
        if not (plan.form.function in rule.patterns[:1] and _is_placeholder(plan.form)):
            yield plan.form
        below = plan.form.opset - 1


def _is_placeholder(form: ReplacementForm) -> bool:
    """Whether a form consists of ops of unknown domains, so that it decomposes nothing."""
    found = _operations(trace(form.function)[0])
    return bool(found) and not any(knows_domain(operation.domain) for operation in found)


def _operations(pattern: Pattern) -> list[NodePattern]:
    """The operations of a pattern, each once."""
    found: dict[int, NodePattern] = {}
    values: list[Value | None] = list(pattern.outputs)
    while values:
        value = values.pop()
        if isinstance(value, NodeOutput) and id(value.operation) not in found:
            found[id(value.operation)] = value.operation
            values.extend(value.operation.inputs)
        elif isinstance(value, AnyOf):
            values.extend(value.forms)
        elif isinstance(value, NamedValue):
            values.append(value.value)
    return list(found.values())


def _target_lines(rule: Rule, target: str) -> Iterator[str]:
    forms = list(_forms(rule, target))
    for place, form in enumerate(forms):
        since = f"  (from opset {form.opset})" if form.opset > 1 else ""
        lines = form_lines(form)
        label = f"{target if not place else '':<11}"
        yield f"{label}{lines[0]}{since}"
        yield from (" " * 11 + line for line in lines[1:])
    plan = rule.plan(target, ANY_OPSET)
    if forms and isinstance(plan, RulePlan) and rule.search is None:
        known = [compiled.pattern for compiled in plan.sources if compiled.pattern.function not in rule.patterns]
        if known:
            yield " " * 11 + f"also in place of {', '.join(draw(pattern)[-1] for pattern in known)}"


def form_lines(form: ReplacementForm) -> list[str]:
    """The replacement of a form, drawn; one that depends on the match is shown by its location."""
    patterns = try_trace(form.function)
    if not patterns:
        code = form.function.__code__
        return [f"written site by site ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"]
    return draw(patterns[0], written=True)


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


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0].strip()
