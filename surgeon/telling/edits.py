"""What is said of edits of a whole model."""

from surgeon.editing.result import EditReport
from surgeon.verdicts.result import CheckResult


def outcome_words(report: EditReport) -> str:
    """What stands behind the outcome: how it is known, or why it is not."""
    if report.check is not None:
        return check_words(report.check)
    if report.outcome == "proved":
        return "every node and weight is the original's own, names apart"
    return f"not to be told from the nodes alone: {report.other}" if report.other else ""


def check_words(check: CheckResult) -> str:
    """On what models were compared, and why that told nothing or of a difference."""
    runs = f"on {check.runs} set{'s' * (check.runs != 1)} of inputs under {check.oracle}" if check.oracle else ""
    return ": ".join(part for part in (runs, check.reason) if part)
