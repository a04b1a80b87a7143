"""What is shown of a conversion to another dtype."""


from surgeon.array_text import side_by_side
from surgeon.display.content.conversion import kept_lines, outcome_words, stretch_lines
from surgeon.display.html.elements import (
    Cell,
    Content,
    Markup,
    Paper,
    badge,
    code,
    element,
    facts,
    joined,
    listed,
    section,
    table,
    verdict,
)
from surgeon.display.registry import by_source, shows
from surgeon.number_text import seconds_text
from surgeon.precision.convert_report import ORDER, ConvertReport, StretchProof
from surgeon.text import counted


@shows(ConvertReport, "convert", by_source("A conversion"))
def of_conversion(report: ConvertReport, _: Paper) -> Markup:
    """What was converted, what was kept and why, and how far outputs move."""
    before, after = (size / 1e6 for size in report.bytes)
    head: list[tuple[str, Content]] = [
        ("model", code(report.source) if report.source else ""),
        ("converted", f"{counted(report.converted, 'node')} from {report.change[0]} to {report.change[1]}"),
        ("rules", ", ".join(f"{name} {count:,}" for name, count in report.rules.items())),
        ("casts", f"{report.casts:,}"),
        ("stored", f"{before:,.1f} MB → {after:,.1f} MB"),
        ("time", seconds_text(report.seconds)),
        ("written", code(report.output) if report.written else "nothing"),
    ]
    rows = [(code(nodes), count, reason) for nodes, reason, count in kept_lines(report)]
    more = f"and {counted(report.followers, 'node')} between these, which round nothing" if report.followers else ""
    return joined((
        verdict(report.outcome, outcome_words(report)),
        element("p", ORDER, class_="faint") if report.outcome == "proved" else "",
        facts(head),
        section(f"Kept in {report.change[0]}", (table(("nodes", "how many", "why"), rows, "Kept nodes"), more)),
        section("Stretches", _stretches(report)),
        section("Weights", listed(report.told) if report.told else ""),
    ))


def _stretches(report: ConvertReport) -> Markup:
    """The parts that compute in the new dtype, each with its proof; nothing where none was run."""
    if not report.stretches:
        return Markup("")
    rows = [
        (
            joined((code(item.first), " to ", code(item.last))),
            item.nodes,
            item.equal,
            joined((badge(item.outcome), f" {item.reason}".rstrip())),
            *_numbers(item),
        )
        for item in report.stretches
    ]
    head = ("from", "nodes", "equal", "against float64", "off by", "its roundings explain")
    return joined((listed(stretch_lines(report)), table(head, rows, "Stretches")))


def _numbers(item: StretchProof) -> tuple[Cell, Cell]:
    """How far a stretch is off, and how far it may be."""
    if item.error is None:
        return Cell("", 0.0), Cell("", item.allowed)
    found, allowed = side_by_side(item.error, item.allowed, (2, 2))
    return Cell(found, item.error), Cell(allowed, item.allowed)
