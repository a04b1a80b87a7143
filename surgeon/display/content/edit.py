"""An edit of a whole model, a split and a recipe as blocks."""

from collections.abc import Iterator
from typing import Any

from onnx import ModelProto

from surgeon.display.blocks import ARROW, Block, Code, Document, Facts, Section, Span, Text, lines_of, outcome
from surgeon.display.content.comparison import check_words, comparison_rows, comparison_tables
from surgeon.display.content.near_misses import warning_lines
from surgeon.display.content.rewrite import change, report_json, written_text
from surgeon.display.content.rewrite import document as rewrite_document
from surgeon.display.content.site import node_line
from surgeon.display.registry import file_name, reports
from surgeon.edits.merge_split.split import SplitReport
from surgeon.file.minimal_patch import common_pairs, ranges_between
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.pipeline.reports.edit_report import AppliedEdit, EditReport
from surgeon.pipeline.reports.report import Report
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.pipeline.reports.site import NodeInfo, attributes_text
from surgeon.proof.check_result import CheckResult
from surgeon.targets.inspection.model_summary import type_text
from surgeon.text import and_more, join_first, seconds_text

MAX_SENTENCES = 12  # of one edit
SHOWN_PORTS = 8  # inputs or outputs of one part
STRUCTURE = "every node and weight is the original's own, names apart"


@reports(EditReport, "edit")
def document(report: EditReport) -> Document:
    """Edits of a model."""
    summary: list[tuple[str, Text]] = []
    for done in report.edits:
        summary += lines_of(done.edit.flag, edit_effects(done))
    summary += [
        ("outcome", (outcome(report.outcome), f" {outcome_words(report)}".rstrip())),
        ("nodes", change(report.nodes)),
        ("time", seconds_text(report.seconds)),
        ("written", written_text(report.output if report.written else "")),
    ]
    lines = list(listing_diff_lines(report))
    kept = "{:,} copied as they lay, {:,} new".format(*report.bytes) if report.written else ""
    details: list[Block] = [
        Section(f"{len(lines):,} lines that are listed otherwise", [Code(lines, "before and after", "diff")]),
        Section("bytes", [Facts([("bytes", kept)])]),
        *_proof(report.check),
    ]
    return Document(file_name(report.source, "An edit"), details, summary, _subject(report.source))


def _proof(check: CheckResult | None) -> list[Block]:
    """The comparison of whole models, folded."""
    if check is None:
        return []
    return [Section("how it was proved", [Facts(list(comparison_rows(check))), *comparison_tables(check)])]


def _subject(source: str) -> list[tuple[str, Text]]:
    return [("model", Span(source, "code") if source else "")]


@reports(SplitReport, "split")
def split_document(report: SplitReport) -> Document:
    """The parts of a model."""
    parts = []
    for part in report.parts:
        takes, gives = (join_first(names, SHOWN_PORTS) or "nothing" for names in (part.inputs, part.outputs))
        parts.append((Span(part.name, "code"), f": {part.nodes:,} nodes, {takes} ", ARROW, f" {gives}"))
    words = check_words(report.check) if report.check is not None else STRUCTURE if report.by_structure else ""
    summary = [
        *lines_of("parts", parts),
        ("outcome", (outcome(report.outcome), f" {words}".rstrip())),
        ("note", report.refused),
        ("time", seconds_text(report.seconds)),
        ("written", written_text(report.output if report.written else "")),
    ]
    return Document(file_name(report.source, "A split"), _proof(report.check), summary, _subject(report.source))


def _recipe_json(report: Report) -> dict[str, Any]:
    parts = [report_json(part) if isinstance(part, RewriteReport) else part.to_dict() for part in report.steps]
    return {**report.to_dict(), "parts": parts}


@reports(Report, "run", _recipe_json)
def recipe_document(report: Report) -> Document:
    """The steps of a recipe."""
    summary, details = list[tuple[str, Text]](), list[Block]()
    for number, part in enumerate(report.steps, 1):
        if isinstance(part, EditReport):
            kind, one = "edits", document(part)
            summary += [(done.edit.flag, "; ".join(edit_effects(done))) for done in part.edits]
        elif isinstance(part, RewriteReport):
            kind, one = "rules", rewrite_document(part)
            fired = ", ".join(f"{rule} {count:,}" for rule, count in part.counts.items() if count)
            undone = f"; {len(part.rolled_back):,} rolled back" if part.rolled_back else ""
            nodes = change(part.nodes)
            summary.append(("rules", (f"{fired or 'nothing fired'}{undone}; nodes ", nodes)))
            summary += [("", remark) for remark in warning_lines(part)]
        summary += [("", reason) for reason in dict.fromkeys(part.doubts)]
        details.append(Section((outcome(part.outcome), f" {number}. {kind}"), [Facts(one.summary), *one.details]))
    summary += [
        ("outcome", outcome(report.outcome)),
        ("time", seconds_text(report.seconds)),
        ("written", written_text(report.output if report.written else "")),
    ]
    return Document(file_name(report.source, "A recipe"), details, summary, _subject(report.source))


def edit_effects(done: AppliedEdit) -> list[str]:
    """The effects of an edit, the first few sentences of many."""
    more = and_more(len(done.said) - MAX_SENTENCES).strip()
    return [*done.said[:MAX_SENTENCES], *([more] if more else ())] or ["it is so already"]


def outcome_words(report: EditReport) -> str:
    """The reason for the outcome, and whether the model cannot be loaded."""
    known = _proof_text(report)
    if known and report.refused:
        return f"{known.rstrip('.')}; {report.refused}"
    return known or report.refused


def _proof_text(report: EditReport) -> str:
    if report.check is not None:
        return check_words(report.check)
    if report.outcome == "proved":
        return STRUCTURE
    return f"not to be told from the nodes alone: {report.other}" if report.other else ""


def listing_diff_lines(report: EditReport) -> Iterator[str]:
    """The changed lines of the model's listing in file order, with a minus before and a plus after."""
    if report.skeletons is None:
        return
    before, after = (list(_listing(model)) for model in report.skeletons)
    for _, gone, come in ranges_between(common_pairs(before, after), len(before), len(after)):
        yield from (f"- {before[place]}" for place in gone)
        yield from (f"+ {after[place]}" for place in come)


def _listing(model: ModelProto) -> Iterator[str]:
    """The contents of a model, a line each."""
    yield from (f"opset {item.domain or 'ai.onnx'} {item.version}" for item in model.opset_import)
    yield from (f"metadata {entry.key} = {entry.value}" for entry in model.metadata_props)
    graph = model.graph
    for kind, values in (("input", graph.input), ("output", graph.output), ("value_info", graph.value_info)):
        yield from (f"{kind} {value.name}: {type_text(value.type)}" for value in values)
    for tensor in graph.initializer:
        yield f"initializer {tensor.name}: {dtype_name(tensor.data_type)}{list(tensor.dims)}"
    for node in graph.node:
        op = f"{node.domain}::{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
        yield node_line(
            NodeInfo(node.name, op, tuple(node.input), outputs=tuple(node.output), attributes=attributes_text(node))
        )
