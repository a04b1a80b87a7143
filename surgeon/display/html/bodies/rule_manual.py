"""What is shown of a rule: its manual, and pictures of what it looks for and what it writes."""

from collections.abc import Callable

from surgeon.display.content.rule_manual import manual_lines, summary, targets_text
from surgeon.display.html.elements import Markup, Paper, code, element, facts, fold, joined, lines
from surgeon.display.pictures.draw import of_diagrams
from surgeon.display.pictures.pattern_diagram import of_pattern
from surgeon.display.pictures.svg import Picture
from surgeon.display.registry import shows
from surgeon.rules.definition_checks import traced
from surgeon.rules.matching.pattern import Pattern
from surgeon.rules.rule import Rule


@shows(Rule, "rule", lambda rule: rule.name, lambda rule: rule_data(rule))
def of_rule(rule: Rule, paper: Paper) -> Markup:
    """A rule."""
    pictures = []
    for form in rule.forms[:1]:
        after = next(iter(traced(form.function)), None)
        for function in rule.patterns:
            before = next(iter(traced(function)), None)
            if before is not None:
                name = f"what {rule.name} looks for as {before.name}, and what it writes for {form.kind}"
                pictures.append(fold(before.name, paper.figure(_drawn(before, after), name)))
    return joined((
        element("p", (element("b", rule.name), f"  {summary(rule)}")),
        facts([("where", code(rule.where)), ("targets", targets_text(rule))]),
        pictures,
        fold("manual", lines(manual_lines(rule), f"the manual of {rule.name}")),
    ))


def _drawn(before: Pattern, after: Pattern | None) -> Callable[[], Picture]:
    diagrams = [of_pattern(before, "before"), *([] if after is None else [of_pattern(after, "after")])]
    return lambda: of_diagrams(diagrams)


def rule_data(rule: Rule) -> dict[str, object]:
    """A rule as JSON can hold it."""
    forms = [{"kind": form.kind, "opset": form.opset} for form in rule.forms]
    return {"name": rule.name, "summary": summary(rule), "where": rule.where, "forms": forms}
