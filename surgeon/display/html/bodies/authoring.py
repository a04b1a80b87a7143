"""What is shown of rules in the making: one captured from a selection, and one tried on a model."""

from surgeon.authoring.capture import CapturedRule
from surgeon.authoring.try_rule import TriedRule
from surgeon.display.html.bodies.explanation import of_explanation
from surgeon.display.html.bodies.rewrite import of_report, report_data
from surgeon.display.html.elements import (
    Cell,
    Markup,
    Paper,
    badge,
    code,
    element,
    facts,
    fold,
    joined,
    lines,
    section,
    table,
)
from surgeon.display.pictures.draw import of_diagrams
from surgeon.display.pictures.pattern_diagram import of_pattern
from surgeon.display.registry import shows
from surgeon.rules.definition_checks import traced
from surgeon.text import counted


@shows(CapturedRule, "capture", lambda found: found.name)
def of_captured(found: CapturedRule, paper: Paper) -> Markup:
    """A captured rule: what is fixed and what is free in it, how often it fits, and its picture."""
    pattern = next(iter(traced(found.rule.patterns[0])))
    times = f"{counted(found.sites, 'site')} of the model"
    rows = [
        (code(one.what), one.sites, Cell(f"{more:+,}", more))
        for one, more in ((one, one.sites - found.sites) for one in found.looser)
    ]
    return joined((
        element("p", (element("b", found.name), f" matches {times}; {found.compared:,} others were compared")),
        paper.figure(lambda: of_diagrams([of_pattern(pattern, "")]), f"the pattern of {found.name}"),
        facts([("free", ", ".join(found.free)), ("fixed", ", ".join(found.fixed))]),
        table(("were this free", "sites", "more"), rows, "What each number holds back"),
        fold("the file", lines(found.text.splitlines(), f"the file of {found.name}")),
    ))


@shows(
    TriedRule,
    "trial",
    lambda found: f"{found.rule} tried",
    lambda found: {**found.to_dict(), "report": report_data(found.report)},
)
def of_trial(found: TriedRule, paper: Paper) -> Markup:
    """A tried rule: its sites with their proofs, and its misses."""
    times = f" fires at {counted(found.count, 'site')}; nothing was written"
    head = (badge(found.outcome), " ", element("b", found.rule), times)
    return joined((
        element("p", head),
        fold("sites and proofs", of_report(found.report, paper), is_open=found.count > 0),
        section("Misses", of_explanation(found.explanation, paper)),
    ))
