"""`surgeon.edit`: apply edits to a model, check the result against the original, and save."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import onnx_graphsurgeon as gs

from surgeon.errors import GraphError, SurgeonError, UsageError
from surgeon.file.model import Model
from surgeon.file.model_like import ModelLike, exported, is_in_memory, model_name, resolve_model
from surgeon.file.patch import Patch
from surgeon.file.save import ExternalDataMode, OutputModel, save
from surgeon.file.temporary_model import temporary_model
from surgeon.pipeline.editing.claim_check import check_claim, proved_by_structure
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import Edit
from surgeon.pipeline.editing.edit_settings import EditSettings
from surgeon.pipeline.editing.structural_proof import structural_difference
from surgeon.pipeline.editing.trial_runs import TrialRuns
from surgeon.pipeline.reports.edit_report import AppliedEdit, EditReport
from surgeon.proof.check_options import CheckOptions, require_check, require_output, resolve_options, resolve_output
from surgeon.proof.check_result import CheckResult, Outcome
from surgeon.proof.model.final_check import require_equal, structural_fault
from surgeon.proof.model.load_check import require_loaded
from surgeon.result_base import ModelAndReport
from surgeon.runtime.inputs.user_inputs import read_inputs

CheckMode: TypeAlias = Literal["auto", "model", "none"]
CHECK_MODES = ("auto", "model", "none")


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
    """Change a whole model: names, sizes, what it takes and gives.  What no edit touches stays byte for byte.

    Args:
        source: a path (then `output` says where to write; it may be the same path), a ModelProto or a gs.Graph.
        edits: values of `surgeon.edits`, applied in order.
        output: the path to write, for a source that is a path.
        check: "model" runs the original and the edited model and compares what they claim to share; "auto" does so
            where it does not follow from the nodes, which are the original's own; "none" runs nothing.
        require_proof: treat a result that cannot be proved as a failed one.
        dry_run: say what would be done, write nothing.
        external_data: what becomes of data files: "auto", "share", "copy" or "inline".
        force: overwrite a data file of other content.
        options: seeds, sizes, tolerances and limits of the check.

    Returns:
        The model in the kind it was given (a path: the path written), and an EditReport.

    Raises:
        UsageError: an edit names what the model has not, or cannot be.
        GraphError: a node of the model stands in the way, or the result would be no valid model.
        CheckFailed: the edited model answers otherwise than it claims; nothing is written.

    Examples:
        >>> import surgeon
        >>> edits = [surgeon.edits.Rename("input_ids", "tokens")]
        >>> path, report = surgeon.edit("notebooks/models/tiny_distilbert.onnx", edits, output="renamed.onnx")
        >>> report.outcome
        'proved'
    """
    wanted = [edits] if isinstance(edits, Edit | str) or not isinstance(edits, Iterable) else list(edits)
    settings = EditSettings(
        output,
        check,
        require_proof=require_proof,
        dry_run=dry_run,
        external_data=external_data,
        force=force,
        options=resolve_options(options),
    )
    _refuse_misuse(source, wanted, settings)
    if isinstance(source, gs.Graph):
        proto = exported(source)
        made, report = edit(proto, wanted, check=check, require_proof=require_proof, dry_run=dry_run, options=options)
        return ModelAndReport((source if dry_run else gs.import_onnx(made), report))
    run = _Run(settings, model_name(source))
    original = resolve_model(source)
    started = time.perf_counter()
    try:
        made = run.run_and_write(original, wanted)
    finally:
        run.report.seconds = time.perf_counter() - started
    return ModelAndReport((source if dry_run else made, run.report))


def _refuse_misuse(source: Any, edits: Sequence[Edit], settings: EditSettings) -> None:
    """Raise UsageError for invalid arguments and combinations."""
    settings.options.require()
    if settings.options.layers:
        raise UsageError("Inner tensors are not compared of edited models; leave out layers, or run surgeon.compare.")
    for item in edits:
        if not isinstance(item, Edit):
            raise UsageError(f"{item!r} is no edit; give values of surgeon.edits, such as surgeon.edits.Rename.")
        with _naming_edit(item):
            item.require_kinds()
    if not edits:
        raise UsageError("Nothing is asked for; name an edit.")
    require_check(settings.check, CHECK_MODES, settings.require_proof)
    require_output(is_in_memory(source), settings.output, settings.dry_run)


@contextmanager
def edited_temporarily(
    source: OutputModel,
    edits: Sequence[Edit],
    output: str | os.PathLike[str] | None,
    *,
    check: CheckMode,
    require_proof: bool,
    options: CheckOptions,
) -> Iterator[tuple[OutputModel, EditReport]]:
    """The edited model, in memory or as a temporary file that is removed when the context ends.

    output: path of the final result.  Raises as `edit`.
    """
    run = _Run(EditSettings(output, check, require_proof, options=options), model_name(source))
    started = time.perf_counter()
    with ExitStack() as stack:
        made = run.run_temporarily(source, edits, stack)
        run.report.seconds = time.perf_counter() - started
        yield made, run.report


class _Run:
    """One run of edits over a model."""

    def __init__(self, settings: EditSettings, source: str) -> None:
        """source: name of the model, for the report."""
        self.settings, self.output = settings, resolve_output(settings.output)
        self.options = settings.options  # with the user's inputs renamed after each stage
        self.report = EditReport(source, str(settings.output or ""))

    def run_and_write(self, original: OutputModel, edits: Sequence[Edit]) -> Any:
        """Apply the edits stage by stage, compare each stage with the one before, and write the last."""
        with ExitStack() as stack:
            source: OutputModel = original
            stages = list(_stages(edits))
            for number, stage in enumerate(stages):
                model = stack.enter_context(Model.open(source))
                draft = self._apply(model, stage, source)
                is_last = number == len(stages) - 1
                patch = draft.patch(
                    self.output, whole=not is_last or self.settings.external_data not in ("auto", "copy")
                )
                if not is_last:
                    source = self._make_temporary(draft, patch, source, stack)
                else:
                    return self._finish(draft, patch, source, original)
        raise AssertionError("there is a last stage")

    def run_temporarily(self, source: OutputModel, edits: Sequence[Edit], stack: ExitStack) -> OutputModel:
        """Apply the edits as `go`, but keep the last stage temporary too."""
        for stage in _stages(edits):
            draft = self._apply(stack.enter_context(Model.open(source)), stage, source)
            source = self._make_temporary(draft, draft.patch(self.output, whole=True), source, stack)
        return source

    def _apply(self, model: Model, edits: Sequence[Edit], source: OutputModel) -> ModelDraft:
        draft = ModelDraft(model)
        draft.runs = None if self.settings.check == "none" else TrialRuns(source, self.output, self.options)
        for item in edits:
            with _naming_edit(item):
                self.report.edits.append(AppliedEdit(item, tuple(item.apply(draft))))
            draft.changed()
        draft.index  # noqa: B018  # raises for an invalid result
        self.options.require_dims_of(model.skeleton.graph, draft.graph)
        first = self.report.skeletons[0] if self.report.skeletons is not None else model.skeleton
        self.report.skeletons = first, draft.skeleton
        self.report.nodes = len(first.graph.node), len(draft.graph.node)
        return draft

    def _make_temporary(self, draft: ModelDraft, patch: Patch, source: OutputModel, stack: ExitStack) -> OutputModel:
        """The model between two stages, as a temporary file if the source is a file."""
        made: OutputModel
        if draft.path is None:
            made = patch.to_proto()
        else:
            made = stack.enter_context(temporary_model(draft.source, patch, self.output))
        self._check(draft, source, made)
        self.options = _with_renamed_inputs(draft, self.options)
        return made

    def _finish(self, draft: ModelDraft, patch: Patch, source: OutputModel, original: OutputModel) -> Any:
        """Write the last stage."""
        if self.settings.dry_run:
            draft.source.check_data()  # as saving would
            self._is_same_structure(draft)
            return None
        if self.output is None:
            made = patch.to_proto()
            self._check(draft, source, made, original)
            return made
        pieces = patch.pieces()
        new = sum(len(piece) for piece in pieces if isinstance(piece, bytes))
        self.report.bytes = (sum(piece[1] - piece[0] for piece in pieces if isinstance(piece, tuple)), new)
        save(
            draft.source,
            patch,
            self.output,
            external_data=self.settings.external_data,
            force=self.settings.force,
            check=lambda path: self._check(draft, source, path, original),
        )
        self.report.written = True
        return self.output

    def _is_same_structure(self, draft: ModelDraft) -> bool:
        """Whether a stage needs no run, because its nodes are those of the model before it; notes a difference."""
        other = structural_difference(draft.source.skeleton, draft.skeleton, draft.claim)
        same = not other and draft.claim.by_structure
        self.report.by_structure = self.report.by_structure and same
        self.report.other = self.report.other or other
        return same

    def _check(
        self, draft: ModelDraft, source: OutputModel, made: OutputModel, original: OutputModel | None = None
    ) -> None:
        """Compare the result of a stage with the model before it; raises if its claim does not hold.

        original: model that the user gave, for the last stage.
        """
        complaint = structural_fault(draft.source, made)
        if complaint is not None:
            raise GraphError(f"The edited model would be invalid ({complaint}); nothing was written.")
        if original is not None:
            note = require_loaded("edited", [original], made, options=self.options, report=self.report)
            self.report.refused = note or ""
        same = self._is_same_structure(draft)
        if self.settings.check == "none" or (self.settings.check == "auto" and same):
            return
        draft.source.check_data(sums=True)  # ONNX Runtime reads all data files, and verifies no checksum
        found = check_claim(draft, source, made, self.options)
        if found.outcome is Outcome.UNPROVED and same:
            found = proved_by_structure(found)
        before = self.report.check
        if before is None or before.outcome is Outcome.PROVED:
            self.report.check = found if before is None else _with_differences(before, found)
        require_equal("edited", found, self.settings.require_proof, self.report)


@contextmanager
def _naming_edit(item: Edit) -> Iterator[None]:
    """Attach this edit to errors."""
    try:
        yield
    except SurgeonError as error:
        error.edit = item
        raise


def _with_differences(before: CheckResult, found: CheckResult) -> CheckResult:
    """The check of a later stage, with the differences that an earlier one reported."""
    if not before.differs_on:
        return found
    reason = " ".join(part for part in (before.reason, found.reason) if part)
    return replace(found, reason=reason, differs_on=tuple(dict.fromkeys((*before.differs_on, *found.differs_on))))


def _with_renamed_inputs(draft: ModelDraft, options: CheckOptions) -> CheckOptions:
    """The same options with the user's inputs under the names that a stage gives them, for later stages."""
    names = {draft.claim.original(value.name): value.name for value in draft.graph.input}
    if not options.inputs or draft.claim.made or all(old == new for old, new in names.items()):
        return options
    given = [one.arrays for one in read_inputs(draft.source.skeleton, options.inputs)]
    return replace(options, inputs=[{names.get(name, name): held[name] for name in held} for held in given])


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
