"""The manual of a rule: its patterns and replacements, drawn from the rule itself."""

import os
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from surgeon.display.blocks import Code, Document, Figure, Section
from surgeon.display.content.pattern_text import draw
from surgeon.display.registry import reports
from surgeon.ops.builder.composites import find_composite
from surgeon.ops.schemas import knows_domain
from surgeon.rules.definition_checks import try_trace
from surgeon.rules.matching.pattern import AnyOf, NamedValue, NodeOutput, NodePattern, Pattern, Value
from surgeon.rules.rule import ReplacementForm, Rule, RulePlan
from surgeon.rules.tracing.tracer import trace
from surgeon.target_registry import takers

if TYPE_CHECKING:
    from surgeon.display.pictures.svg import Picture

ANY_OPSET = 10**6  # an opset that every form supports


@reports(Rule, "rule", lambda rule: _rule_data(rule))
def document(rule: Rule) -> Document:
    """The manual of a rule."""
    (title, lines), *sections = _manual(rule)
    blocks = [Section(name, [Code(text, name)], folded=False) for name, text in sections]
    head = Section((title, f"  ({rule.where})"), [Code(lines, "docstring")], folded=False)
    return Document(rule.name, [head, *_pictures(rule), *blocks], (), [("targets", targets_text(rule))])


def _manual(rule: Rule) -> Iterator[tuple[str, list[str]]]:
    """The headings of the manual, and the lines below each."""
    lines = (rule.doc or "This rule has no docstring.").splitlines()
    if rule.approximate:
        lines.append(
            f"It is approximate: it may change outputs by {rule.approximate:g}, and by {rule.approximate:g} of their "
            "largest magnitude."
        )
    lines += [f"It differs on purpose, for inputs of {kind}: {how}." for kind, how in rule.differs.items()]
    if rule.dtypes:
        lines.append(f"It supports only {' or '.join(rule.dtypes)}.")
    yield rule.name, lines
    traced = {function: trace(function) for function in rule.patterns}
    before = [f"found by a search: {rule.search.summary}"] if rule.search is not None else []
    for function, patterns in traced.items():
        before.append(_with_note(function.__name__, function.__doc__))
        for place, pattern in enumerate(patterns):
            before += [" or"] if place else []
            before += [f"  {line}" for line in draw(pattern)]
    yield "Before", before
    after = [line for target in rule.targets for line in _target_lines(rule, target)]
    for form in (form for form in rule.forms if not any(takers(form.kind))):
        after.append(f"{form.kind:<11}{form_lines(form)[-1]}  (no installed target takes it)")
    yield "After", after
    words = {call.word for patterns in traced.values() for one in patterns for call in one.helper_calls.values()}
    yield "Words", [f"{word}: {_first_line(find_composite(word).__doc__)}" for word in sorted(words)]
    yield "Conditions", [_with_note(condition.__name__, condition.__doc__) for condition in rule.conditions]


def _with_note(name: str, text: str | None) -> str:
    note = _first_line(text)
    return f"{name}{': ' + note if note else ''}"


def _pictures(rule: Rule) -> Iterator[Section]:
    """The first form next to each pattern."""
    after = next((pattern for form in rule.forms[:1] for pattern in try_trace(form.function)), None)
    for function in rule.patterns if rule.forms else ():
        for before in try_trace(function)[:1]:
            about = f"{rule.name}: its pattern {before.name}, and its replacement for {rule.forms[0].kind}"
            yield Section((before.name,), [Figure(partial(_draw, before, after), about)])


def _draw(before: Pattern, after: Pattern | None) -> "Picture":
    from surgeon.display.pictures.draw import draw_diagrams
    from surgeon.display.pictures.pattern_diagram import pattern_diagram

    diagrams = [pattern_diagram(before, "before"), *([] if after is None else [pattern_diagram(after, "after")])]
    return draw_diagrams(diagrams)


def _rule_data(rule: Rule) -> dict[str, object]:
    """A rule as JSON can hold it."""
    forms = [{"kind": form.kind, "opset": form.opset} for form in rule.forms]
    return {"name": rule.name, "summary": summary(rule), "where": rule.where, "forms": forms}


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


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0].strip()
