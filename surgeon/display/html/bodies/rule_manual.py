"""The HTML of a rule: its manual, and pictures of its patterns and replacements."""

from collections.abc import Callable

from surgeon.display.content.rule_manual import manual_lines, summary, targets_text
from surgeon.display.html.elements import (
    Markup,
    RenderContext,
    code,
    collapsible,
    concat,
    element,
    fields,
    preformatted,
)
from surgeon.display.pictures.draw import draw_diagrams
from surgeon.display.pictures.pattern_diagram import pattern_diagram
from surgeon.display.pictures.svg import Picture
from surgeon.display.registry import register_view
from surgeon.rules.definition_checks import try_trace
from surgeon.rules.matching.pattern import Pattern
from surgeon.rules.rule import Rule


@register_view(Rule, "rule", lambda rule: rule.name, lambda rule: rule_data(rule))
def rule_body(rule: Rule, context: RenderContext) -> Markup:
    """A rule."""
    pictures = []
    for form in rule.forms[:1]:
        after = next(iter(try_trace(form.function)), None)
        for function in rule.patterns:
            before = next(iter(try_trace(function)), None)
            if before is not None:
                name = f"what {rule.name} looks for as {before.name}, and what it writes for {form.kind}"
                pictures.append(collapsible(before.name, context.figure(_drawer(before, after), name)))
    return concat((
        element("p", (element("b", rule.name), f"  {summary(rule)}")),
        fields([("where", code(rule.where)), ("targets", targets_text(rule))]),
        pictures,
        collapsible("manual", preformatted(manual_lines(rule), f"the manual of {rule.name}")),
    ))


def _drawer(before: Pattern, after: Pattern | None) -> Callable[[], Picture]:
    diagrams = [pattern_diagram(before, "before"), *([] if after is None else [pattern_diagram(after, "after")])]
    return lambda: draw_diagrams(diagrams)


def rule_data(rule: Rule) -> dict[str, object]:
    """A rule as JSON can hold it."""
    forms = [{"kind": form.kind, "opset": form.opset} for form in rule.forms]
    return {"name": rule.name, "summary": summary(rule), "where": rule.where, "forms": forms}
