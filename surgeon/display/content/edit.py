"""An edit and a split of a whole model as blocks."""

from collections.abc import Iterator

from onnx import ModelProto

from surgeon.display.blocks import ARROW, Block, Code, Document, Facts, Section, Span, Text
from surgeon.display.content.comparison import check_words
from surgeon.display.content.report import (
    edit_lines,
    headed_document,
    labelled_lines,
    nodes_change,
    outcome_rows,
    proof_section,
)
from surgeon.display.content.site import node_line
from surgeon.display.registry import reports
from surgeon.edits.merge_split.split import SplitReport
from surgeon.file.minimal_patch import common_pairs, ranges_between
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.pipeline.reports.edit_report import EditReport
from surgeon.pipeline.reports.site import NodeInfo, attributes_text
from surgeon.targets.inspection.model_summary import type_text
from surgeon.text import format_count, join_first

SHOWN_PORTS = 8  # inputs or outputs of one part
STRUCTURE = "every node and weight is the original's own, names apart"


@reports(EditReport, "edit")
def document(report: EditReport) -> Document:
    """Edits of a model."""
    lines = list(listing_diff_lines(report))
    kept = "{:,} copied as they lay, {:,} new".format(*report.bytes) if report.written else ""
    details: list[Block] = [
        Section(f"{len(lines):,} lines that are listed otherwise", [Code(lines, "before and after", "diff")]),
        Section("bytes", [Facts([("bytes", kept)])]),
        *proof_section(report.check),
    ]
    same = "" if report.changed or not report.is_copy else "identical to the input"
    done, rows = labelled_lines(list(edit_lines(report))), outcome_rows(report, outcome_words(report))
    return headed_document(report, nodes_change(report.nodes), done=done, rows=rows, details=details, same=same)


@reports(SplitReport, "split")
def split_document(report: SplitReport) -> Document:
    """The parts of a model."""
    parts = list[Text]()
    for part in report.parts:
        takes, gives = (join_first(names, SHOWN_PORTS) or "nothing" for names in (part.inputs, part.outputs))
        parts.append((Span(part.name, "code"), f": {part.nodes:,} nodes, {takes} ", ARROW, f" {gives}"))
    words = check_words(report.check) if report.check is not None else STRUCTURE if report.by_structure else ""
    rows = [*outcome_rows(report, words), ("note", report.refused)]
    count = format_count(len(parts), "part")
    return headed_document(report, count, done=parts, rows=rows, details=proof_section(report.check))


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
    return f"the nodes do not prove it: {report.other}" if report.other else ""


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
