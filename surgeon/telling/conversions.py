"""What is said of a conversion to another dtype."""

from collections import defaultdict
from collections.abc import Iterator

from surgeon.listing import first_of
from surgeon.precision.result import ConvertReport

_SHOWN = 3  # nodes that are named of those with one reason


def kept_lines(report: ConvertReport) -> Iterator[tuple[str, str, int]]:
    """The nodes that keep their dtype, those of one op and one reason together: which, why, and how many."""
    reasons: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for item in report.kept:
        reasons[item.reason, item.op].append(item.node)
    for (reason, op), nodes in reasons.items():
        yield f"{op} {first_of(nodes, _SHOWN)}", reason, len(nodes)


def outcome_words(report: ConvertReport) -> str:
    """What stands behind the outcome: how far outputs move, or why nothing is known of that."""
    if report.outcome == "unchanged":
        return f"nothing in it is {report.change[0]}"
    if report.error is None or report.reason:
        return report.reason
    return f"on {counted(report.runs, 'set')} of inputs under {report.oracle}"


def counted(count: int, what: str) -> str:
    """So many of something."""
    return f"{count:,} {what}{'s' * (count != 1)}"
