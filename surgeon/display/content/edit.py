"""The texts of edits."""

from collections.abc import Iterator

from onnx import ModelProto

from surgeon.display.content.rewrite import node_line
from surgeon.file.minimal_patch import common_pairs, ranges_between
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.pipeline.reports.edit_report import AppliedEdit, EditReport
from surgeon.pipeline.reports.site import NodeInfo, attributes_text
from surgeon.proof.check_result import CheckResult
from surgeon.targets.inspection.model_summary import type_text
from surgeon.text import and_more, runs_text

MAX_SENTENCES = 12  # of one edit


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
        return "every node and weight is the original's own, names apart"
    return f"not to be told from the nodes alone: {report.other}" if report.other else ""


def check_words(check: CheckResult) -> str:
    """The runs of a comparison, and the reason if it failed or proved nothing."""
    runs = f"on {runs_text(check.runs, check.oracle)}" if check.outputs else ""
    return ": ".join(part for part in (runs, check.reason) if part)


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
