"""Splits a model into consecutive parts, each of them a model."""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from surgeon.analysis.assumptions.model_assumptions import assumption_lines
from surgeon.edits.merge_split.chain_check import ChainLink, check_chain
from surgeon.edits.merge_split.cut_points import PartBoundary, SplitPlanner
from surgeon.errors import CheckFailed, GraphError, UsageError
from surgeon.file.external_data.new_file import MODES
from surgeon.file.model_like import ModelLike, is_in_memory, model_name, opened_to_run, returned
from surgeon.file.save import ExternalDataMode, OutputModel, save
from surgeon.file.staged_folder import staged_folder
from surgeon.pipeline.checks import Checks, PhaseTimer, Saving
from surgeon.pipeline.editing.claim_check import proved_by_structure
from surgeon.pipeline.editing.draft import ModelDraft, declaring
from surgeon.pipeline.editing.structural_proof import structural_difference
from surgeon.pipeline.editing.subgraph import extract
from surgeon.pipeline.reports.report import Report
from surgeon.proof.check_options import CheckOptions
from surgeon.proof.check_result import Outcome
from surgeon.proof.model.final_check import structural_fault
from surgeon.proof.model.load_check import loading
from surgeon.result_base import JsonRecord, ModelAndReport

SPLIT_CHECKS = ("model", "auto", "none")


@dataclass(frozen=True, slots=True)
class SplitPart(JsonRecord):
    """One part."""

    JSON = "name inputs outputs nodes"

    name: str
    """File name in the output folder; empty for a part in memory."""
    inputs: tuple[str, ...]
    """Inputs of the whole model, or outputs of earlier parts."""
    outputs: tuple[str, ...]
    """Outputs."""
    nodes: int
    """Nodes in its main graph."""


@dataclass(slots=True)
class SplitReport(Report):
    """The result of a split.

    Examples:
        >>> import surgeon
        >>> _, report = surgeon.split("notebooks/models/tiny_distilbert.onnx", "parts", at=["gelu"])
        >>> report.parts[0].inputs, report.parts[1].outputs
        (('input_ids', 'attention_mask'), ('logits',))
    """

    JSON = "source output outcome assumptions? parts by_structure check written seconds refused"

    parts: list[SplitPart] = field(default_factory=list)
    """The parts in the order in which they run."""
    by_structure: bool = field(default=True, kw_only=True)
    """Whether every node of the parts is a node of the original."""

    @property
    def changed(self) -> bool:
        """Whether it was split, which each split does."""
        return True


def split(
    source: ModelLike,
    output: str | os.PathLike[str] | None = None,
    *,
    at: Sequence[str] = (),
    parts: int | None = None,
    check: Literal["model", "auto", "none"] = "model",
    require_proof: bool = False,
    dry_run: bool = False,
    external_data: ExternalDataMode = "auto",
    force: bool = False,
    options: CheckOptions | None = None,
) -> tuple[list[Any], SplitReport]:
    """Split a model into consecutive parts, and prove that they compute the same, one after the other.

    The inputs of a part are inputs of the model and outputs of earlier parts; tensors keep their names.  Weights that
    several parts read are in each of them.  The data file of a part has only the bytes that the part uses.

    Args:
        source: a path (then `output` is the folder to write), or a model in memory.
        output: a new or empty folder; the parts are called NAME-1.onnx, NAME-2.onnx, ...
        at: tensors to cut after, in any order.  Each part has the further nodes that the next of these tensors needs.
        parts: number of parts with similar bytes of weights, instead of tensors.
        check: "model" runs the parts one after the other, and compares their outputs with those of the whole model;
            "auto" runs them only if the result does not follow from the graph itself; "none" runs nothing.
        require_proof: treat an unproved result as a failed one.
        dry_run: report the cuts, but write nothing.
        external_data: how data files are written: "auto", "copy" or "inline".
        force: write into a folder that contains other files, and overwrite parts in it.
        options: seeds, sizes, tolerances and limits of the check.

    Returns:
        The parts, of the same type as `source` (for a path: the paths written), and a report.

    Raises:
        UsageError: a tensor does not exist, or does not split the model.
        GraphError: a part would not be a valid model.
        CheckFailed: the parts differ from the whole model; nothing is written.

    Examples:
        >>> import surgeon
        >>> paths, report = surgeon.split("notebooks/models/tiny_distilbert.onnx", "parts", parts=2)
        >>> report.outcome, [path.name for path in paths]
        ('proved', ['tiny_distilbert-1.onnx', 'tiny_distilbert-2.onnx'])
    """
    checks = Checks.named(check, SPLIT_CHECKS, require_proof, options, dry_run=dry_run)
    if external_data not in MODES:
        raise UsageError("Several parts cannot have one data file. Choose auto, copy or inline.")
    saving = Saving(output, external_data, force)
    _refuse_misuse(source, at, parts, output, dry_run=dry_run)
    timer = PhaseTimer()
    report = SplitReport(model_name(source), str(output or ""))
    try:
        with timer.phase("split"), opened_to_run(source) as (model, original):
            whole = ModelDraft(declaring(model, checks.options.assume))
            report.assumptions = assumption_lines(whole.skeleton)
            whole.index  # noqa: B018  # raises for an invalid model
            planner = SplitPlanner(whole)
            ends = planner.at_tensors(at) if at else planner.into_parts(parts or 0)
            run = _Splitting(whole, original, ends, report, checks=checks, saving=saving)
            made = run.plan() if dry_run else run.in_memory() if output is None else run.into_folder(Path(output))
            given = [part if isinstance(part, Path) else returned(source, part, whole.held) for part in made]
    finally:
        report.timed(timer.seconds)
    return ModelAndReport((given, report))


def _refuse_misuse(source: Any, at: Sequence[str], parts: int | None, output: object, dry_run: bool) -> None:
    """Raise UsageError for invalid arguments and combinations."""
    if isinstance(at, str) or not isinstance(at, Collection) or not all(isinstance(name, str) for name in at):
        raise UsageError(f"at must be a list of tensor names, not {at!r}.")
    if parts is not None and (not isinstance(parts, int) or isinstance(parts, bool)):
        raise UsageError(f"parts must be an integer, not {parts!r}.")
    if bool(at) == (parts is not None):
        raise UsageError("Give either the tensors to cut after (at, --at) or the number of parts (parts, --parts).")
    twice = next((name for name in at if list(at).count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{twice!r} is given twice. Give it once.")
    in_memory = is_in_memory(source)
    if in_memory and output is not None:
        raise UsageError("The parts of a model in memory are returned, not written. Leave out output, or give a path.")
    if output is None and not in_memory and not dry_run:
        raise UsageError("Give the folder for the parts, for example output='parts'.")


@dataclass(slots=True)
class _Splitting:
    """One split of a model."""

    whole: ModelDraft
    """The model, unchanged."""
    original: Callable[[], OutputModel]
    """Returns the same as a path or a proto."""
    ends: Sequence[PartBoundary]
    """Inputs and outputs of each part."""
    report: SplitReport
    """Report, which is updated."""
    checks: Checks
    """How to check the parts."""
    saving: Saving
    """How to write them."""

    def plan(self) -> list[Any]:
        """No parts; the report has them."""
        for _ in self._drafts():
            pass
        return []

    def in_memory(self) -> list[Any]:
        """The parts as models in memory."""
        made = [draft.patch().to_proto() for draft in self._drafts()]
        for part in made:
            self._require_valid(part)
        self._check([self.whole.made_from(part.SerializeToString()) for part in made] if self.whole.held else made)
        return made

    def into_folder(self, output: Path) -> list[Any]:
        """The parts as files in a folder: all of them or none."""
        folder, mode, made = Path(os.path.abspath(output)), self.saving.external_data, list[Path]()
        with staged_folder(folder, "the parts", force=self.saving.force) as staging:
            for draft in self._drafts():
                path = staging / self.report.parts[-1].name
                patch = draft.patch(path, whole=mode not in ("auto", "copy"))
                save(self.whole.source, patch, path, external_data=mode, check=self._require_valid)
                made.append(path)
            self._check(made)
        self.report.written = True
        return [folder / path.name for path in made]

    def _drafts(self) -> Iterator[ModelDraft]:
        """The draft of each part, which is the last in the report."""
        model, width = self.whole.before, len(str(len(self.ends)))
        for number, ends in enumerate(self.ends, 1):
            draft = ModelDraft(model)
            extract(draft, ends.inputs, ends.outputs, self.whole)
            self.report.by_structure &= not structural_difference(model.skeleton, draft.skeleton, draft.claim)
            name = "" if model.path is None else f"{model.path.stem}-{number:0{width}}.onnx"
            self.report.parts.append(SplitPart(name, ends.inputs, ends.outputs, len(draft.graph.node)))
            yield draft

    def _require_valid(self, part: OutputModel) -> None:
        """Raise GraphError for a part that breaks ONNX's rules."""
        complaint = structural_fault(self.whole.before, part)
        if complaint is not None:
            raise GraphError(f"A part would not be a valid model ({complaint}). Nothing was written.")

    def _check(self, made: Sequence[OutputModel]) -> None:
        """Load the parts, and compare them, run one after the other, with the whole model; raises if they differ."""
        options, whole, report = self.checks.options, self.checks.whole, self.report
        for part in made:
            loaded = loading([self.original()], part, options)
            if loaded.fault:
                raise CheckFailed(f"The split model does not load: {loaded.fault}. Nothing was written.", report)
            report.refused = report.refused or loaded.note
        if whole == "never" or (whole == "auto" and report.by_structure):
            return
        self.whole.before.check_data(sums=True)
        links = [
            ChainLink(f"part {number}", part, {}, {name: name for name in ends.outputs})
            for number, (part, ends) in enumerate(zip(made, self.report.parts, strict=True), 1)
        ]
        found = check_chain(self.original(), self.whole.before.skeleton, links, options=options)
        if found.outcome is Outcome.UNPROVED and report.by_structure:
            found = proved_by_structure(found)
        report.check = found
        is_wrong = found.outcome is Outcome.FAILED
        if is_wrong or (found.outcome is Outcome.UNPROVED and self.checks.require_proof):
            how = "The parts differ from the whole model" if is_wrong else "The parts are not proved"
            raise CheckFailed(f"{how}: {found.reason.rstrip('.')}. Nothing was written.", report)
