"""`surgeon.edit`, and the transform that applies edits whose claims compose."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from surgeon.errors import SurgeonError, UsageError
from surgeon.file.model_like import ModelLike, is_in_memory
from surgeon.file.save import ExternalDataMode, OutputModel
from surgeon.pipeline.checks import Checks, Saving
from surgeon.pipeline.component_runs import for_each_component
from surgeon.pipeline.driver import run
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import Edit
from surgeon.pipeline.editing.structural_proof import structural_difference
from surgeon.pipeline.reports.edit_report import AppliedEdit, EditReport
from surgeon.pipeline.snapshot import Snapshot
from surgeon.pipeline.transform import Claim, Words
from surgeon.proof.check_options import CheckOptions, require_output
from surgeon.proof.check_result import CheckResult, Outcome
from surgeon.result_base import ModelAndReport

CheckMode: TypeAlias = Literal["auto", "model", "none"]
CHECK_MODES = ("auto", "model", "none")


@for_each_component
def edit(
    source: ModelLike,
    edits: Edit | Sequence[Edit],
    *,
    output: str | os.PathLike[str] | None = None,
    check: CheckMode = "auto",
    require_proof: bool = False,
    dry_run: bool = False,
    external_data: ExternalDataMode = "auto",
    force: bool = False,
    options: CheckOptions | None = None,
) -> tuple[Any, EditReport]:
    """Change a whole model: names, sizes, inputs and outputs.  Everything else stays byte for byte.

    Args:
        source: a path (with `output`, which may be the same path), or a model in memory.
        edits: values of `surgeon.edits`, applied in order.
        output: output path; needed if the source is a path.
        check: "model" runs the original and the edited model and compares the tensors that should be equal; "auto" does
            so unless the nodes are those of the original; "none" runs nothing.
        require_proof: treat unproved results as failures.
        dry_run: report the changes, write nothing.
        external_data: how to save external data: "auto", "share", "copy", "inline", or a file: "weights/m.data".
        force: overwrite a data file of other content.
        options: seeds, sizes, tolerances and limits of the check.

    Returns:
        The model in the same type as `source` (a path: the output path), and an EditReport.

    Raises:
        UsageError: the model lacks a name in an edit, or does not allow the edit.
        GraphError: a node of the model prevents an edit, or the result would be invalid.
        CheckFailed: the outputs of the edited model are wrong; nothing is written.

    Examples:
        >>> import surgeon
        >>> edits = [surgeon.edits.Rename("input_ids", "tokens")]
        >>> path, report = surgeon.edit("notebooks/models/tiny_distilbert.onnx", edits, output="renamed.onnx")
        >>> report.outcome
        'proved'
    """
    wanted = [edits] if isinstance(edits, Edit | str) or not isinstance(edits, Iterable) else list(edits)
    checks = Checks.named(check, CHECK_MODES, require_proof, options, dry_run=dry_run)
    return apply_edits(source, wanted, checks, Saving(output, external_data, force))


def apply_edits(source: ModelLike, edits: Sequence[Edit], checks: Checks, saving: Saving) -> tuple[Any, EditReport]:
    """As `edit`."""
    if checks.options.layers:
        raise UsageError("Edits do not compare inner tensors. Omit layers, or use surgeon.compare.")
    groups = edit_groups(edits)
    require_output(is_in_memory(source), saving.output, checks.dry_run)
    made, _ = run(source, groups, checks, saving)
    return ModelAndReport((made, groups[0].report))


def edit_groups(edits: Sequence[Edit]) -> list["EditGroup"]:
    """Edits as transforms with one report.  Raises UsageError for no edits, or invalid ones."""
    for item in edits:
        if not isinstance(item, Edit):
            raise UsageError(f"{item!r} is not an edit. Give values of surgeon.edits, such as surgeon.edits.Rename.")
        with _naming_edit(item):
            item.require_kinds()
    if not edits:
        raise UsageError("No edits given. Example: surgeon.edits.Rename")
    report = EditReport("", "")
    return [EditGroup(group, report) for group in _stages(edits)]


@dataclass(frozen=True, slots=True)
class EditGroup:
    """Edits in order, whose claims compose to one."""

    edits: Sequence[Edit]
    """The edits."""
    report: EditReport
    """Report of these and of further groups."""

    def apply(self, draft: ModelDraft, checks: Checks) -> Claim:
        """Apply the edits to a draft, and claim what they claim together."""
        report, before = self.report, draft.before.skeleton
        for item in self.edits:
            with _naming_edit(item):
                report.edits.append(AppliedEdit(item, tuple(item.apply(draft))))
            draft.changed()
        draft.index  # noqa: B018  # raises for an invalid result
        checks.options.require_dims_of(before.graph, draft.graph)
        first = report.skeletons[0] if report.skeletons is not None else before
        report.skeletons = first, draft.skeleton
        report.nodes = len(first.graph.node), len(draft.graph.node)
        other = structural_difference(before, draft.skeleton, draft.claim)
        same = not other and draft.claim.by_structure
        report.by_structure, report.other = report.by_structure and same, report.other or other

        def relation(snapshot: Snapshot, made: OutputModel, options: CheckOptions) -> CheckResult:
            from surgeon.pipeline.editing.claim_check import check_claim, proved_by_structure  # not at the top: rare

            draft.source.check_data(sums=True)  # ONNX Runtime reads all data files, and verifies no checksum
            found = check_claim(draft, snapshot.runnable(), made, options)
            return proved_by_structure(found) if found.outcome is Outcome.UNPROVED and same else found

        return Claim(report, Words.of("edited"), relation, structure=same)


@contextmanager
def _naming_edit(item: Edit) -> Iterator[None]:
    """Attach this edit to errors."""
    try:
        yield
    except SurgeonError as error:
        error.edit = item
        raise


def _stages(edits: Sequence[Edit]) -> Iterator[list[Edit]]:
    """Edits in stages that one claim describes: no stage both reads inner tensors and computes inputs.

    An edit that has to be checked by itself is one stage: next to an edit that rounds, an output that jumps would fail.
    """
    stage: list[Edit] = []
    for item in edits:
        mixes = item.feeds != "kept" and any(before.feeds not in ("kept", item.feeds) for before in stage)
        if stage and (mixes or item.alone or stage[-1].alone):
            yield stage
            stage = []
        stage.append(item)
    if stage:
        yield stage
