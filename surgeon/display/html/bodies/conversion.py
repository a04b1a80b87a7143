"""The HTML of a conversion to another dtype."""


from surgeon.display.content.conversion import kept_node_rows, outcome_words, segment_lines
from surgeon.display.html.elements import (
    Cell,
    HtmlContent,
    Markup,
    RenderContext,
    bullet_list,
    code,
    concat,
    element,
    fields,
    outcome_badge,
    outcome_note,
    section,
    table,
)
from surgeon.display.registry import register_view, title_from_source
from surgeon.precision.convert_report import ORDER, ConvertReport, SegmentProof
from surgeon.text import format_beside_limit, format_count, seconds_text


@register_view(ConvertReport, "convert", title_from_source("A conversion"))
def conversion_body(report: ConvertReport, _: RenderContext) -> Markup:
    """The converted and the kept nodes, and the errors of the outputs."""
    before, after = (size / 1e6 for size in report.bytes)
    head: list[tuple[str, HtmlContent]] = [
        ("model", code(report.source) if report.source else ""),
        ("converted", f"{format_count(report.converted, 'node')} from {report.change[0]} to {report.change[1]}"),
        ("rules", ", ".join(f"{name} {count:,}" for name, count in report.rules.items())),
        ("casts", f"{report.casts:,}"),
        ("stored", f"{before:,.1f} MB → {after:,.1f} MB"),
        ("time", seconds_text(report.seconds)),
        ("written", code(report.output) if report.written else "nothing"),
    ]
    rows = [(code(nodes), count, reason) for nodes, reason, count in kept_node_rows(report)]
    more = (
        f"and {format_count(report.followers, 'node')} between these, which round nothing" if report.followers else ""
    )
    return concat((
        outcome_note(report.outcome, outcome_words(report)),
        element("p", ORDER, class_="faint") if report.outcome == "proved" else "",
        fields(head),
        section(f"Kept in {report.change[0]}", (table(("nodes", "how many", "why"), rows, "Kept nodes"), more)),
        section("Stretches", _segments(report)),
        section("Weights", bullet_list(report.told) if report.told else ""),
    ))


def _segments(report: ConvertReport) -> Markup:
    """The segments that compute in the new dtype, each with its proof; nothing without proofs."""
    if not report.stretches:
        return Markup("")
    rows = [
        (
            concat((code(item.first), " to ", code(item.last))),
            item.nodes,
            item.equal,
            concat((outcome_badge(item.outcome), f" {item.reason}".rstrip())),
            *_numbers(item),
        )
        for item in report.stretches
    ]
    head = ("from", "nodes", "equal", "against float64", "off by", "its roundings explain")
    return concat((bullet_list(segment_lines(report)), table(head, rows, "Stretches")))


def _numbers(item: SegmentProof) -> tuple[Cell, Cell]:
    """The error of a segment, and its limit."""
    if item.error is None:
        return Cell("", 0.0), Cell("", item.allowed)
    found, allowed = format_beside_limit(item.error, item.allowed, (2, 2))
    return Cell(found, item.error), Cell(allowed, item.allowed)
