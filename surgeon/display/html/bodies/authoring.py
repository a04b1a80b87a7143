"""What is shown of rules in the making: one captured from a selection, and one tried on a model."""

from surgeon.authoring.capture import CapturedRule
from surgeon.authoring.try_rule import TriedRule
from surgeon.display.html.bodies.explanation import of_explanation
from surgeon.display.html.bodies.rewrite import report_json, rewrite_body
from surgeon.display.html.elements import (
    Cell,
    Markup,
    RenderContext,
    code,
    collapsible,
    concat,
    element,
    fields,
    outcome_badge,
    preformatted,
    section,
    table,
)
from surgeon.display.pictures.draw import draw_diagrams
from surgeon.display.pictures.pattern_diagram import pattern_diagram
from surgeon.display.registry import register_view
from surgeon.rules.definition_checks import try_trace
from surgeon.text import format_count


@register_view(CapturedRule, "capture", lambda found: found.name)
def of_captured(found: CapturedRule, paper: RenderContext) -> Markup:
    """A captured rule: what is fixed and what is free in it, how often it fits, and its picture."""
    pattern = next(iter(try_trace(found.rule.patterns[0])))
    times = f"{format_count(found.sites, 'site')} of the model"
    rows = [
        (code(one.what), one.sites, Cell(f"{more:+,}", more))
        for one, more in ((one, one.sites - found.sites) for one in found.looser)
    ]
    return concat((
        element("p", (element("b", found.name), f" matches {times}; {found.compared:,} others were compared")),
        paper.figure(lambda: draw_diagrams([pattern_diagram(pattern, "")]), f"the pattern of {found.name}"),
        fields([("free", ", ".join(found.free)), ("fixed", ", ".join(found.fixed))]),
        table(("were this free", "sites", "more"), rows, "What each number holds back"),
        collapsible("the file", preformatted(found.text.splitlines(), f"the file of {found.name}")),
    ))


@register_view(
    TriedRule,
    "trial",
    lambda found: f"{found.rule} tried",
    lambda found: {**found.to_dict(), "report": report_json(found.report)},
)
def of_trial(found: TriedRule, paper: RenderContext) -> Markup:
    """A tried rule: its sites with their proofs, and its misses."""
    times = f" fires at {format_count(found.count, 'site')}; nothing was written"
    head = (outcome_badge(found.outcome), " ", element("b", found.rule), times)
    return concat((
        element("p", head),
        collapsible("sites and proofs", rewrite_body(found.report, paper), is_open=found.count > 0),
        section("Misses", of_explanation(found.explanation, paper)),
    ))
