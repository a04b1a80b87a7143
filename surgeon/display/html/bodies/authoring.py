"""The HTML of captured rules and of tried rules."""

from surgeon.authoring.capture import CapturedRule
from surgeon.authoring.try_rule import TriedRule
from surgeon.display.html.bodies.explanation import explanation_body
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
def capture_body(found: CapturedRule, context: RenderContext) -> Markup:
    """A captured rule: its fixed and free parameters, its sites, and a picture of its pattern."""
    pattern = next(iter(try_trace(found.rule.patterns[0])))
    times = f"{format_count(found.sites, 'site')} of the model"
    rows = [
        (code(parameter.what), parameter.sites, Cell(f"{more:+,}", more))
        for parameter, more in ((parameter, parameter.sites - found.sites) for parameter in found.looser)
    ]
    return concat((
        element("p", (element("b", found.name), f" matches {times}; {found.compared:,} others were compared")),
        context.figure(lambda: draw_diagrams([pattern_diagram(pattern, "")]), f"the pattern of {found.name}"),
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
def trial_body(found: TriedRule, context: RenderContext) -> Markup:
    """A tried rule: its sites with their proofs, and its near misses."""
    times = f" fires at {format_count(found.count, 'site')}; nothing was written"
    head = (outcome_badge(found.outcome), " ", element("b", found.rule), times)
    return concat((
        element("p", head),
        collapsible("sites and proofs", rewrite_body(found.report, context), is_open=found.count > 0),
        section("Misses", explanation_body(found.explanation, context)),
    ))
