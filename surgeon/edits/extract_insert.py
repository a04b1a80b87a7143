"""`surgeon.extract` and `surgeon.insert`: the two edits between cuts, as functions like `surgeon.edit`."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from surgeon.edits.extract import Extract
from surgeon.edits.insert import Insert
from surgeon.file.model_like import ModelLike
from surgeon.file.save import ExternalDataMode
from surgeon.pipeline.checks import Checks, Saving
from surgeon.pipeline.editing.edit_group import CHECK_MODES, CheckMode, apply_edits
from surgeon.pipeline.reports.edit_report import EditReport
from surgeon.proof.check_options import CheckOptions


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
    """Cut a part out of a model: the smallest graph that computes some tensors from some others.

    The tensors of the first cut become the inputs, in the order given, with the dtypes and sizes that are known.

    Args:
        source: a path (then `output` says where to write), a ModelProto or a gs.Graph.
        froms: tensors to begin with; by default the inputs that are needed.  In Python, one name or several.
        tos: tensors to end with; by default the outputs that depend on the first.
        output: the path to write, for a source that is a path.
        check: "model" runs the part and compares it with the inner tensors of the original; "auto" does so where it
            does not follow from the nodes, which are the original's own; "none" runs nothing.
        require_proof: treat a result that cannot be proved as a failed one.
        dry_run: say what would be done, write nothing.
        external_data: what becomes of data files: "auto", "share", "copy" or "inline".
        force: overwrite a data file of other content.
        options: seeds, sizes, tolerances and limits of the check.

    Returns:
        The part in the kind that the model was given (a path: the path written), and an EditReport.

    Raises:
        UsageError: there is no such tensor, or the part needs tensors beside `froms`, which the message names.
        GraphError: the part would be no valid model.
        CheckFailed: the part computes something else than the original does there; nothing is written.

    Examples:
        >>> import surgeon
        >>> path, report = surgeon.extract("notebooks/models/tiny_distilbert.onnx", tos="gelu", output="head.onnx")
        >>> report.outcome, report.nodes
        ('proved', (180, 73))
    """
    checks = Checks.named(check, CHECK_MODES, require_proof, options, dry_run=dry_run)
    return apply_edits(source, [Extract(_names(froms), _names(tos))], checks, Saving(output, external_data, force))


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
    """Put one node in the place of all that lies between two cuts: an operator, a plugin, a call of a local function.

    What it computes is compared with the original by the implementation among `options.custom_ops`; without one the
    result is unproved.

    Args:
        source: a path (then `output` says where to write), a ModelProto or a gs.Graph.
        froms: tensors that the node reads, in this order; weights may be among them.
        tos: tensors that it computes, in this order; they keep their names.
        op: the operator of the node, as "domain::Name", or "Name" of ai.onnx.
        attributes: attributes of the node by name: numbers, strings, and lists of such.
        name: the name of the node; else one like that of its operator.
        output: the path to write, for a source that is a path.
        check: "auto" and "model" run both models and compare them; "none" runs nothing.
        require_proof: treat a result that cannot be proved as a failed one.
        dry_run: say what would be done, write nothing.
        external_data: what becomes of data files: "auto", "share", "copy" or "inline".
        force: overwrite a data file of other content.
        options: seeds, sizes, tolerances and limits of the check.

    Returns:
        The model in the kind it was given (a path: the path written), and an EditReport.

    Raises:
        UsageError: there is no such tensor, the node needs tensors beside `froms`, or its operator does not fit.
        GraphError: the result would be no valid model.
        CheckFailed: the node computes something else than what it replaces; nothing is written.

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
