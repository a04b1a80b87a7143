"""A captured rule and a tried rule as blocks."""

from typing import TYPE_CHECKING

from surgeon.authoring.capture import CapturedRule
from surgeon.authoring.try_rule import TriedRule
from surgeon.display.blocks import (
    Block,
    Code,
    Document,
    Facts,
    Figure,
    Note,
    Number,
    Section,
    Span,
    Table,
    outcome,
    summary_blocks,
)
from surgeon.display.content.explanation import explanation_blocks
from surgeon.display.content.rewrite import document as rewrite_document
from surgeon.display.content.rewrite import report_json
from surgeon.display.registry import reports
from surgeon.rules.definition_checks import try_trace
from surgeon.text import format_count

if TYPE_CHECKING:
    from surgeon.display.pictures.svg import Picture


@reports(CapturedRule, "capture")
def capture_document(found: CapturedRule) -> Document:
    """A captured rule: its sites, a picture of its pattern, and its fixed and free parameters."""

    def draw() -> "Picture":
        from surgeon.display.pictures.draw import draw_diagrams
        from surgeon.display.pictures.pattern_diagram import pattern_diagram

        return draw_diagrams([pattern_diagram(next(iter(try_trace(found.rule.patterns[0]))), "")])

    sites = f" matches {format_count(found.sites, 'site')} of the model; {found.compared:,} others were compared"
    rows = []
    for parameter in found.looser:
        more = parameter.sites - found.sites
        rows.append((Span(parameter.what, "code"), parameter.sites, Number(f"{more:+,}", more)))
    details: list[Block] = [
        Note((Span(found.name, "strong"), sites)),
        Figure(draw, f"the pattern of {found.name}"),
        Facts([("free", ", ".join(found.free)), ("fixed", ", ".join(found.fixed))]),
        Table("Sites that each fixed number excludes", ("if this were free", "sites", "more"), rows),
        Section("the file", [Code(found.text.splitlines(), f"the file of {found.name}")]),
    ]
    return Document(found.name, details)


@reports(TriedRule, "trial", lambda found: {**found.to_dict(), "report": report_json(found.report)})
def trial_document(found: TriedRule) -> Document:
    """A tried rule: its sites with their proofs, and its near misses."""
    times = f" fires at {format_count(found.count, 'site')}; nothing was written"
    report = rewrite_document(found.report)
    details: list[Block] = [
        Note((outcome(found.outcome), " ", Span(found.rule, "strong"), times)),
        Section("sites and proofs", [*summary_blocks(report), *report.details], folded=not found.count),
        *explanation_blocks(found.explanation),
    ]
    return Document(f"{found.rule} tried", details)
