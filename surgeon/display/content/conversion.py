"""The texts of a conversion to another dtype."""

from collections import defaultdict
from collections.abc import Iterator

from surgeon.precision.convert_report import MEANINGLESS, ConvertReport, error_text
from surgeon.text import format_beside_limit, join_first, runs_text

_SHOWN = 3  # nodes listed by name per reason


def kept_node_rows(report: ConvertReport) -> Iterator[tuple[str, str, int]]:
    """The kept nodes grouped by op and reason: names, reason, and number."""
    reasons: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for item in report.kept:
        reasons[item.reason, item.op].append(item.node)
    for (reason, op), nodes in reasons.items():
        yield f"{op} {join_first(nodes, _SHOWN)}", reason, len(nodes)


def outcome_words(report: ConvertReport) -> str:
    """The reason for the outcome: the runs and their error, or why nothing is known."""
    if report.outcome == "unchanged":
        if report.kept:
            return f"nothing in it can be {report.change[1]}"
        return f"nothing in it {'rounds' if report.followers else 'is'} {report.change[0]}"
    if report.error is None or report.reason:
        return report.reason
    where = f"on {runs_text(report.runs, report.oracle)}"
    if report.hidden is None:
        return where
    return f"{where}, but for rows that a mask hides whole: these move by {report.hidden:.2g} of the outputs' scale"


def segment_lines(report: ConvertReport) -> Iterator[str]:
    """The results of the segments: how many are proved and how nearly, the failed ones, and why others were not run."""
    every = sum(item.equal for item in report.stretches)
    holding = [item for item in report.stretches if item.outcome == "proved"]
    if holding:
        worst = max(holding, key=lambda item: (item.error or 0.0) / item.allowed)
        proved = f"{sum(item.equal for item in holding):,} of {every:,} are as in float64, up to their roundings"
        where = f"from {worst.first} to {worst.last}"
        error, allowed = format_beside_limit(worst.error or 0.0, worst.allowed, (2, 2))
        yield f"{proved}; the worst, {where}, is off by {error} of {allowed}"
    for item in report.stretches:
        if item.outcome == "failed":
            yield f"from {item.first} to {item.last}: {error_text(item)}"
    others: defaultdict[str, int] = defaultdict(int)
    for item in report.stretches:
        if item.outcome == "unproved":
            others[item.reason or MEANINGLESS] += item.equal
    for reason, count in others.items():
        yield f"{count:,} of {every:,} unproved: {reason}"
