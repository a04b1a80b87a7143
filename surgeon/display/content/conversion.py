"""A conversion to another dtype as blocks: the converted and the kept nodes, and the errors of the outputs."""

from collections import defaultdict
from collections.abc import Iterator

from surgeon.display.blocks import ARROW, DOT, Cell, Document, Number, Section, Span, Table, Text, lines_of, outcome
from surgeon.display.content.report import counted_line, headed_document, outcome_rows
from surgeon.display.registry import reports
from surgeon.precision.convert_report import MEANINGLESS, ORDER, ConvertReport, SegmentProof, error_text
from surgeon.text import format_beside_limit, format_count, join_first, runs_text

_SHOWN = 3  # nodes listed by name per reason


@reports(ConvertReport, "convert")
def document(report: ConvertReport) -> Document:
    """A conversion."""
    segments = Section("segments", [Table("Segments", SEGMENT_HEADS, list(map(_segment_row, report.stretches)))])
    before, after = (f"{size / 1e6:,.1f}" for size in report.bytes)
    change = (report.change[0], " ", ARROW, f" {report.change[1]}, {before} ", ARROW, f" {after} MB")
    kept = len(report.kept) + report.followers
    counts = [format_count(report.converted, "node"), " converted ", DOT, f" {kept:,} kept ", DOT]
    done = [[*counts, f" {format_count(report.casts, 'cast')}"]]
    rules = [counted_line(report.rules)] if report.rules else []
    return headed_document(report, change, done=[*done, *rules], rows=_rows(report), details=[segments])


def _rows(report: ConvertReport) -> Iterator[tuple[Text, Text]]:
    yield from outcome_rows(report, outcome_words(report))
    yield from lines_of("segment", segment_lines(report))
    kept = [f"{nodes}: {reason}" for nodes, reason in kept_node_rows(report)]
    more = f"and {format_count(report.followers, 'node')} between these, which round nothing"
    yield from lines_of("kept", [*kept, *([more] if report.followers else [])])
    yield from lines_of("note", [*report.notes, *([ORDER] if report.outcome == "proved" else [])])


SEGMENT_HEADS = ("from", "nodes", "equal", "against float64", "off by", "its roundings explain")


def _segment_row(item: SegmentProof) -> tuple[Cell, ...]:
    """A segment that computes in the new dtype, its proof, its error and its limit."""
    error = ("", "") if item.error is None else format_beside_limit(item.error, item.allowed, (2, 2))
    numbers = Number(error[0], item.error or 0.0), Number(error[1], item.allowed)
    where = (Span(item.first, "code"), " to ", Span(item.last, "code"))
    return where, item.nodes, item.equal, (outcome(item.outcome), f" {item.reason}".rstrip()), *numbers


def kept_node_rows(report: ConvertReport) -> Iterator[tuple[str, str]]:
    """The kept nodes grouped by op and reason: names, and the reason."""
    reasons: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for item in report.kept:
        reasons[item.reason, item.op].append(item.node)
    for (reason, op), nodes in reasons.items():
        yield f"{op} {join_first(nodes, _SHOWN)}", reason


def outcome_words(report: ConvertReport) -> str:
    """The reason for the outcome: the runs and their error, or why nothing is known."""
    if report.outcome == "unchanged":
        if report.kept:
            return f"nothing in it can be {report.change[1]}"
        return f"nothing in it {'rounds' if report.followers else 'is'} {report.change[0]}"
    if report.error is None or report.reason:
        return report.reason
    moved = f"outputs change by at most {report.error:.2g} of their largest value, "
    where = f"{moved if report.outcome in ('proved', 'unproved') else ''}on {runs_text(report.runs, report.oracle)}"
    if report.hidden is None:
        return where
    return f"{where}; fully masked rows change by {report.hidden:.2g}"


def segment_lines(report: ConvertReport) -> Iterator[str]:
    """The results of the segments: how many are proved and how nearly, the failed ones, and why others were not run."""
    every = sum(item.equal for item in report.stretches)
    holding = [item for item in report.stretches if item.outcome == "proved"]
    if holding:
        worst = max(holding, key=lambda item: (item.error or 0.0) / item.allowed)
        proved = f"{sum(item.equal for item in holding):,} of {every:,} agree with float64 within their rounding"
        where = f"from {worst.first} to {worst.last}"
        error, allowed = format_beside_limit(worst.error or 0.0, worst.allowed, (2, 2))
        yield f"{proved}; the largest error is {error}, limit {allowed} ({where})"
    for item in report.stretches:
        if item.outcome == "failed":
            yield f"from {item.first} to {item.last}: {error_text(item)}"
    others: defaultdict[str, int] = defaultdict(int)
    for item in report.stretches:
        if item.outcome == "unproved":
            others[item.reason or MEANINGLESS] += item.equal
    for reason, count in others.items():
        yield f"{count:,} of {every:,} unproved: {reason}"
