"""The common parts of the documents of reports, and the report of several steps, for example of a recipe, as blocks."""

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
    plain_text,
    summary_blocks,
)
from surgeon.display.content.comparison import assumption_clause, comparison_rows, comparison_tables
from surgeon.display.registry import builder_of, file_name, reports
from surgeon.pipeline.reports.edit_report import AppliedEdit, EditReport
from surgeon.pipeline.reports.report import UNCHANGED, Report
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.proof.check_result import CheckResult
from surgeon.text import and_more, format_count, seconds_text

MAX_SENTENCES = 12  # of one edit


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
    """A report as blocks, its summary first: the model and its change, effects, the rows, and the output file.

    same: a note on the output file.  advice: command-line options that show more.
    """
    name = file_name(report.source, "model in memory")
    wrote: Text = "nothing"
    if report.written:
        wrote = Span(report.output, "code") if report.output else "a model in memory"
    notes = "; ".join(filter(None, (same if report.written else "", f"{report.duration:.1f} s")))
    text = wrote, f" ({notes}", Span(f"; {advice}" if advice else "", "shell"), ")"
    last = "replaced" if report.replaces else "wrote", text
    model = Facts([("model", Span(report.source, "code") if report.source else ""), ("time", _time(report))])
    blocks, headline = [*details, Section("run", [model])], (name, "  ", change)
    return Document(name, blocks, summary=[*rows, last], headline=headline, done=list(done))


def counted_line(counts: Mapping[str, int]) -> Text:
    """Names with their counts, in one line."""
    return dotted(f"{name} {count:,}" for name, count in counts.items())


def dotted(words: Iterable[str]) -> Text:
    """Words in one line, with dots between them."""
    return [part for word in words for part in (" ", DOT, " ", word)][3:]


def outcome_rows(report: Report, words: str) -> list[tuple[Text, Text]]:
    """The outcome of a report with its reason, and the assumptions under which it holds."""
    return [(outcome(report.outcome), words), *assumption_rows(report)]


def assumption_rows(report: Report) -> list[tuple[Text, Text]]:
    """The assumptions of the user under which a report holds."""
    return [("note", f"proved only {assumption_clause(report.assumptions)}")] if report.assumptions else []


def change(numbers: tuple[int, int], rest: str = "") -> Text:
    """Two numbers, before and after."""
    return f"{numbers[0]:,} ", ARROW, f" {numbers[1]:,}{rest}"


def nodes_change(nodes: tuple[int, int]) -> Text:
    """The nodes before and after, in words."""
    return change(nodes, " nodes") if nodes[0] != nodes[1] else format_count(nodes[0], "node")


def proof_section(check: CheckResult | None) -> list[Block]:
    """The comparison of whole models, folded."""
    if check is None:
        return []
    return [Section("how it was proved", [Facts(list(comparison_rows(check))), *comparison_tables(check)])]


def edit_lines(report: Report) -> Iterator[tuple[str, Text]]:
    """The effects of each edit: its flag, empty for continuation lines, and a text."""
    for done in report.edits:
        yield from lines_of(done.edit.flag, edit_effects(done))


def edit_effects(done: AppliedEdit) -> list[str]:
    """The effects of an edit, the first few sentences of many."""
    more = and_more(len(done.said) - MAX_SENTENCES).strip()
    return [*done.said[:MAX_SENTENCES], *([more] if more else ())] or ["nothing to change"]


def steps_json(report: Report) -> dict[str, Any]:
    """The JSON value of a report with its steps."""
    return {**report.to_dict(), "parts": [builder_of(part).data(part) for part in report.steps]}


@reports(Report, "run", steps_json)
def document(report: Report) -> Document:
    """The steps of a run."""
    return steps_document(report, format_count(len(report.steps), "step"))


def steps_document(
    report: Report, change: Text, notes: Iterable[tuple[Text, Text]] = (), files: str = "", proof: str = ""
) -> Document:
    """The steps of a run.  change: its headline.  notes: further rows.  files: a note on the output.  proof: of all."""
    done, words, rows, details = list[tuple[str, Text]](), list[str](), list[tuple[Text, Text]](), list[Block]()
    for number, part in enumerate(report.steps, 1):
        one = builder_of(part).build(part)
        (_, reason), *others, _ = one.summary  # between the outcome and the output file
        words += [plain_text(reason)] if part.outcome != UNCHANGED else []
        rows += others
        done += _step_lines(part, one)
        kind = "edits" if isinstance(part, EditReport) else "rules" if isinstance(part, RewriteReport) else "weights"
        title = (outcome(part.outcome), f" {number}. {kind}")
        details.append(Section(title, [*summary_blocks(one), *one.details]))
    words, details = [*words, proof], [*details, *proof_section(report.check)]
    reason = "; ".join(dict.fromkeys(filter(None, words))) or "no step changed the model"
    first: tuple[Text, Text] = (outcome(report.outcome), reason)
    rows = [first, *{plain_text(row[1]): row for row in (*rows, *notes)}.values()]
    return headed_document(report, change, done=labelled_lines(done), rows=rows, details=details, same=files)


def _step_lines(part: Report, one: Document) -> Iterator[tuple[str, Text]]:
    """The effects of one step."""
    if isinstance(part, RewriteReport):
        fired = one.done or ["nothing fired"]
        yield from (("rules", (text, "; nodes ", change(part.nodes))) for text in fired)
    elif isinstance(part, EditReport):
        yield from ((done.edit.flag, "; ".join(edit_effects(done))) for done in part.edits)
    else:
        yield from (("weights", text) for text in (plain_text(one.headline[2:]), *one.done))


def labelled_lines(rows: Sequence[tuple[str, Text]]) -> list[Text]:
    """Lines that begin with labels of one width."""
    width = max((len(label) for label, _ in rows), default=0)
    return [(f"{label:<{width}}  ", text) for label, text in rows]
