"""The HTML of edits, splits and recipes."""

from collections.abc import Iterator
from typing import Any

from surgeon.automation.recipes.recipe_report import RecipeReport
from surgeon.display.content.edit import edit_effects, listing_diff_lines, outcome_words
from surgeon.display.html.bodies.check import comparison_body
from surgeon.display.html.bodies.rewrite import report_json, rewrite_body
from surgeon.display.html.elements import (
    HtmlContent,
    Markup,
    RenderContext,
    code,
    collapsible,
    concat,
    diff_lines,
    fields,
    outcome_badge,
    outcome_note,
    section,
    table,
)
from surgeon.display.registry import register_view, title_from_source
from surgeon.edits.merge_split.split import SplitReport
from surgeon.pipeline.reports.edit_report import EditReport
from surgeon.pipeline.reports.rewrite_report import Report
from surgeon.text import seconds_text


@register_view(EditReport, "edit", title_from_source("An edit"))
def edit_body(report: EditReport, context: RenderContext) -> Markup:
    """The effects of edits."""
    rows = [(code(f"--{done.edit.flag}"), "; ".join(edit_effects(done))) for done in report.edits]
    lines = list(listing_diff_lines(report))
    return concat((
        outcome_note(report.outcome, outcome_words(report)),
        fields(_head(report)),
        section("Edits", table(("edit", "what was done"), rows, "What each edit did")),
        collapsible(f"{len(lines):,} lines that are listed otherwise", diff_lines(lines)) if lines else "",
        section("How it was proved", comparison_body(report.check, context)) if report.check is not None else "",
    ))


def _head(report: EditReport) -> Iterator[tuple[str, HtmlContent]]:
    yield "model", code(report.source) if report.source else ""
    yield "nodes", "{:,} → {:,}".format(*report.nodes)
    yield "bytes", "{:,} copied as they lay, {:,} new".format(*report.bytes) if report.written else ""
    yield "time", seconds_text(report.seconds)
    yield "written", code(report.output) if report.written else "nothing"


@register_view(SplitReport, "split", title_from_source("A split"))
def split_body(report: SplitReport, context: RenderContext) -> Markup:
    """The parts of a model."""
    rows = [(code(part.name), ", ".join(part.inputs), ", ".join(part.outputs), part.nodes) for part in report.parts]
    return concat((
        outcome_note(report.outcome, f"{len(report.parts):,} parts of {report.source or 'a model'}"),
        table(("part", "inputs", "outputs", "nodes"), rows, "The parts, in the order in which they run"),
        comparison_body(report.check, context) if report.check is not None else "",
    ))


def _recipe_data(report: RecipeReport) -> dict[str, Any]:
    parts = [report_json(part) if isinstance(part, Report) else part.to_dict() for part in report.parts]
    return {**report.to_dict(), "parts": parts}


@register_view(RecipeReport, "run", title_from_source("A recipe"), _recipe_data)
def recipe_body(report: RecipeReport, context: RenderContext) -> Markup:
    """All steps of a recipe, each as in its own report."""
    parts = []
    for number, part in enumerate(report.parts, 1):
        is_edit = isinstance(part, EditReport)
        title = (outcome_badge(part.outcome), f" {number}. {'edits' if is_edit else 'rules'}")
        inside = edit_body(part, context) if isinstance(part, EditReport) else rewrite_body(part, context)
        parts.append(collapsible(title, inside, is_open=len(report.parts) == 1))
    fired = ", ".join(f"{rule} {count:,}" for rule, count in report.counts.items())
    head: list[tuple[str, HtmlContent]] = [
        ("model", code(report.source) if report.source else ""),
        ("rules", fired),
        ("time", seconds_text(report.seconds)),
        ("written", code(report.output) if report.written else "nothing"),
    ]
    return concat((outcome_note(report.outcome, f"{len(report.parts):,} parts"), fields(head), *parts))
