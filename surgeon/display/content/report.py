"""What the documents of all reports share, and the report of several steps, as of a recipe, as blocks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from surgeon.display.blocks import (
    ARROW,
    DOT,
    Block,
    Document,
    Facts,
    Section,
    Span,
    Text,
    lines_of,
    outcome,
    summary_blocks,
)
from surgeon.display.content.comparison import comparison_rows, comparison_tables, under_assumptions
from surgeon.display.content.near_misses import warning_lines
from surgeon.display.registry import builder_of, file_name, reports
from surgeon.pipeline.reports.edit_report import AppliedEdit, EditReport
from surgeon.pipeline.reports.report import Report
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.proof.check_result import CheckResult
from surgeon.text import and_more, seconds_text

MAX_SENTENCES = 12  # of one edit


def report_document(
    report: Report,
    in_memory: str,
    rows: Iterable[tuple[str, Text]],
    details: Iterable[Block] = (),
    *,
    subject: Sequence[tuple[str, Text]] = (),
    same: str = "",
) -> Document:
    """A report as blocks: the given rows of the summary, the time, and what was written.

    in_memory: the title for a model without a file.  subject: rows beside the model.  same: a note on what was written.
    """
    path = Span(report.output, "code") if report.written else ""
    written: Text = (path, same) if path else "nothing"
    model = ("model", Span(report.source, "code") if report.source else "")
    summary = [*rows, ("time", _time(report)), ("written", written)]
    return Document(file_name(report.source, in_memory), list(details), summary, [model, *subject])


def _time(report: Report) -> str:
    """The duration, by phase if the phases are known."""
    seconds = report.seconds if isinstance(report.seconds, dict) else {"": report.seconds}
    return ", ".join(f"{phase} {seconds_text(value)}".lstrip() for phase, value in seconds.items())


def headed_document(
    report: Report,
    change: Text,
    *,
    done: Iterable[Text],
    rows: Iterable[tuple[Text, Text]],
    details: Iterable[Block],
    same: str = "",
    advice: str = "",
) -> Document:
    """A report as blocks, its summary first: the model and its change, what was done, the rows, and the output file.

    same: a note on the output file.  advice: options that show more, for the command line.
    """
    name = file_name(report.source, "model in memory")
    wrote: Text = "nothing"
    if report.written:
        wrote = Span(report.output, "code") if report.output else "a model in memory"
    notes = "; ".join(filter(None, (same, f"{report.duration:.1f} s")))
    last = "wrote", (wrote, f" ({notes}", Span(f"; {advice}" if advice else "", "shell"), ")")
    model = Facts([("model", Span(report.source, "code") if report.source else ""), ("time", _time(report))])
    blocks, headline = [*details, Section("run", [model])], (name, "  ", change)
    return Document(name, blocks, summary=[*rows, last], headline=headline, done=list(done))


def counted_line(counts: Mapping[str, int]) -> Text:
    """Names with their counts, in one line."""
    words = [f"{name} {count:,}" for name, count in counts.items()]
    return [part for word in words for part in (" ", DOT, " ", word)][3:]


def outcome_row(report: Report, words: str) -> tuple[str, Text]:
    """The outcome of a report, and its reason."""
    return "outcome", (outcome(report.outcome), f" {under_assumptions(words, report.assumptions)}".rstrip())


def change(numbers: tuple[int, int], rest: str = "") -> Text:
    """Two numbers, before and after."""
    return f"{numbers[0]:,} ", ARROW, f" {numbers[1]:,}{rest}"


def proof_section(check: CheckResult | None) -> list[Block]:
    """The comparison of whole models, folded."""
    if check is None:
        return []
    return [Section("how it was proved", [Facts(list(comparison_rows(check))), *comparison_tables(check)])]


def edit_lines(report: Report) -> Iterator[tuple[str, Text]]:
    """What each edit did: its flag, empty for continuation lines, and a text."""
    for done in report.edits:
        yield from lines_of(done.edit.flag, edit_effects(done))


def edit_effects(done: AppliedEdit) -> list[str]:
    """The effects of an edit, the first few sentences of many."""
    more = and_more(len(done.said) - MAX_SENTENCES).strip()
    return [*done.said[:MAX_SENTENCES], *([more] if more else ())] or ["it is so already"]


def _json(report: Report) -> dict[str, Any]:
    return {**report.to_dict(), "parts": [builder_of(part).data(part) for part in report.steps]}


@reports(Report, "run", _json)
def document(report: Report) -> Document:
    """The steps of a run."""
    summary, details = list[tuple[str, Text]](), list[Block]()
    for number, part in enumerate(report.steps, 1):
        one = builder_of(part).build(part)
        kind = "edits" if isinstance(part, EditReport) else "rules"
        summary += _step_lines(part)
        details.append(Section((outcome(part.outcome), f" {number}. {kind}"), [*summary_blocks(one), *one.details]))
    return report_document(report, "A recipe", [*summary, outcome_row(report, "")], details)


def _step_lines(part: Report) -> Iterator[tuple[str, Text]]:
    """What one step did, and why it is not proved."""
    yield from ((done.edit.flag, "; ".join(edit_effects(done))) for done in part.edits)
    if isinstance(part, RewriteReport):
        fired = ", ".join(f"{rule} {count:,}" for rule, count in part.counts.items() if count)
        undone = f"; {len(part.rolled_back):,} rolled back" if part.rolled_back else ""
        yield "rules", (f"{fired or 'nothing fired'}{undone}; nodes ", change(part.nodes))
        yield from (("", remark) for remark in warning_lines(part))
    yield from (("", reason) for reason in dict.fromkeys(part.doubts))
