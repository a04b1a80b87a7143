"""`surgeon.extract` and `surgeon.insert`: the two edits between cuts, as functions."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from surgeon.edits.extract import Extract
from surgeon.edits.insert import Insert
from surgeon.file.model_like import ModelLike
from surgeon.file.save import ExternalDataMode
from surgeon.pipeline.checks import Checks, Saving
from surgeon.pipeline.component_runs import for_each_component
from surgeon.pipeline.editing.edit_group import CHECK_MODES, CheckMode, apply_edits
from surgeon.pipeline.reports.edit_report import EditReport
from surgeon.proof.check_options import CheckOptions


@for_each_component
def extract(
    source: ModelLike,
    froms: str | Sequence[str] = (),
    tos: str | Sequence[str] = (),
    *,
    output: str | os.PathLike[str] | None = None,
    check: CheckMode = "model",
    require_proof: bool = False,
    dry_run: bool = False,
    external_data: ExternalDataMode = "auto",
    force: bool = False,
    options: CheckOptions | None = None,
) -> tuple[Any, EditReport]:
    """Extract the smallest part of a model that computes some tensors from some others.

    The tensors of the first cut become the inputs, in the given order, with their known dtypes and sizes.

    Args:
        source: a path (then `output` says where to write), or a model in memory.
        froms: tensors to start from; by default the inputs that the part needs.  In Python, one name or several.
        tos: tensors to end at; by default the outputs that depend on the first.
        output: the path to write, if the source is a path.
        check: "model" runs the part and compares it with the inner tensors of the original; "auto" runs it only if the
            result does not follow from the graph itself; "none" runs nothing.
        require_proof: treat an unproved result as a failed one.
        dry_run: report the changes, but write nothing.
        external_data: how data files are written: "auto", "share", "copy", "inline", or a file: "weights/m.data".
        force: overwrite data files even if their contents differ.
        options: seeds, sizes, tolerances and limits of the check.

    Returns:
        The part, of the same type as `source` (for a path: the path written), and an EditReport.

    Raises:
        UsageError: a tensor does not exist, or the part also needs a tensor that is not in `froms`.
        GraphError: the part would not be a valid model.
        CheckFailed: the part computes something else than the original; nothing is written.

    Examples:
        >>> import surgeon
        >>> path, report = surgeon.extract("notebooks/models/tiny_distilbert.onnx", tos="gelu", output="head.onnx")
        >>> report.outcome, report.nodes
        ('proved', (180, 73))
    """
    checks = Checks.named(check, CHECK_MODES, require_proof, options, dry_run=dry_run)
    return apply_edits(source, [Extract(_names(froms), _names(tos))], checks, Saving(output, external_data, force))


@for_each_component
def insert(
    source: ModelLike,
    froms: str | Sequence[str],
    tos: str | Sequence[str],
    op: str,
    *,
    attributes: Mapping[str, Any] | None = None,
    name: str = "",
    output: str | os.PathLike[str] | None = None,
    check: CheckMode = "auto",
    require_proof: bool = False,
    dry_run: bool = False,
    external_data: ExternalDataMode = "auto",
    force: bool = False,
    options: CheckOptions | None = None,
) -> tuple[Any, EditReport]:
    """Replace everything between two cuts with one node: an operator, a plugin or a call of a local function.

    The check runs the op's implementation in `options.custom_ops`, and compares the result with the original.  Without
    an implementation the result is unproved.

    Args:
        source: a path (then `output` says where to write), or a model in memory.
        froms: tensors that the node reads, in this order; weights may be among them.
        tos: tensors that it computes, in this order; they keep their names.
        op: the operator of the node, as "domain::Name", or "Name" of ai.onnx.
        attributes: attributes of the node by name: numbers, strings, and lists of these.
        name: the name of the node; by default derived from its operator.
        output: the path to write, if the source is a path.
        check: "auto" and "model" run both models and compare them; "none" runs nothing.
        require_proof: treat an unproved result as a failed one.
        dry_run: report the changes, but write nothing.
        external_data: how data files are written: "auto", "share", "copy", "inline", or a file: "weights/m.data".
        force: overwrite data files even if their contents differ.
        options: seeds, sizes, tolerances and limits of the check.

    Returns:
        The model, of the same type as `source` (for a path: the path written), and an EditReport.

    Raises:
        UsageError: a tensor does not exist, the tensors of `froms` do not suffice, or the operator does not fit.
        GraphError: the result would not be a valid model.
        CheckFailed: the node computes something else than the nodes that it replaces; nothing is written.

    Examples:
        >>> import surgeon
        >>> model = "notebooks/models/tiny_distilbert.onnx"
        >>> _, report = surgeon.insert(model, "linear_4", "gelu", "com.microsoft::Gelu", output="fused.onnx")
        >>> report.outcome, report.nodes
        ('proved', (180, 176))
    """
    checks = Checks.named(check, CHECK_MODES, require_proof, options, dry_run=dry_run)
    node = Insert(_names(froms), _names(tos), op, attributes=dict(attributes or {}), name=name)
    return apply_edits(source, [node], checks, Saving(output, external_data, force))


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    """One name, or several."""
    return (given,) if isinstance(given, str) else tuple(given)
