"""The driver of all changes of models: opens a source once, applies transforms in order, and saves the result once.

Each change is compared with the model before it.  If a claim fails, the transform may repeat the change in a fresh
draft with a smaller claim; this is how sites are rolled back.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from surgeon.analysis.assumptions.model_assumptions import assumption_lines
from surgeon.errors import CheckFailed, GraphError, SurgeonError
from surgeon.file.external_data.held_tensors import HeldModel
from surgeon.file.model import Model
from surgeon.file.model_like import ModelLike, is_in_memory, is_proto, model_name, resolve_model, returned
from surgeon.file.save import is_source
from surgeon.file.save import saving as saving_model
from surgeon.file.temporary_model import remove_leftovers
from surgeon.pipeline.checks import Checks, PhaseTimer, Saving
from surgeon.pipeline.editing.draft import ModelDraft, declaring
from surgeon.pipeline.editing.trial_runs import TrialRuns
from surgeon.pipeline.reports.report import Report
from surgeon.pipeline.snapshot import Snapshot
from surgeon.pipeline.transform import Claim, Compound, Failure, Transform
from surgeon.proof.check_options import CheckOptions, require_output, resolve_output
from surgeon.proof.check_result import CheckResult, Outcome
from surgeon.proof.model.final_check import structural_fault
from surgeon.proof.model.load_check import loading
from surgeon.runtime.implementations.implementation import traits_of_files


def run(
    source: ModelLike,
    transforms: Sequence[Transform | Compound],
    checks: Checks = Checks(),  # noqa: B008  # frozen
    saving: Saving = Saving(),  # noqa: B008
    report: Report | None = None,
    agree: Callable[[Report], None] = lambda _: None,
) -> tuple[Any, Report]:
    """Apply transforms to a model in order, establish the claim of each, and save the result.

    Args:
        source: a path (with `saving.output`, which may be the same path), or a model in memory (which may be
            saved too).
        transforms: at least one.
        checks: the checks.
        saving: how to save.
        report: gets a step for each transform, even if an error is raised.
        agree: called with the report of a transform before anything runs, and after each rollback; it may raise.

    Returns:
        The output path, or the model in the same type as `source`, and the report.  Transforms may share a step.

    Raises:
        CheckFailed: a claim does not hold, and the transform has no smaller one; nothing is written.
        GraphError: a result violates ONNX's rules.
        SurgeonError: the errors of the transforms; `error.step` is the number of the transform.
    """
    report = Report("", "") if report is None else report
    if saving.output is None:
        require_output(is_in_memory(source), None, checks.dry_run)
    timer = PhaseTimer()
    with ExitStack() as stack:
        stack.enter_context(traits_of_files(checks.options.custom_ops))
        with timer.phase("read"):
            original = resolve_model(source)
            model = stack.enter_context(Model.open(original))
        if isinstance(original, Path) and len(transforms) > 1:
            remove_leftovers(original.parent, original)
        checks = replace(checks, timer=timer)
        given = Snapshot(model, None, stack, None if isinstance(original, HeldModel) else original)
        steps = _Run(source, given, model, checks, saving=saving, report=report, agree=agree, stack=stack)
        pending = list(enumerate(transforms))
        while pending:
            number, transform = pending.pop(0)
            try:
                if isinstance(transform, Compound):
                    steps.add(transform.report)
                    pending[:0] = [(number, part) for part in steps.expand(transform)]
                else:
                    steps.apply(transform, is_last=not pending)
            except SurgeonError as error:
                error.step = number
                raise
        if checks.dry_run:
            model.check_data()  # as saving would
    return source if checks.dry_run else steps.result, report


@dataclass(slots=True)
class _Run:
    """One run over an opened model."""

    source: ModelLike
    """The model that the user gave."""
    original: Snapshot
    """The same for runtimes."""
    model: Model
    """The same, opened."""
    checks: Checks
    """The checks of the next change."""
    saving: Saving
    """How to save the result."""
    report: Report
    """Has the steps so far."""
    agree: Callable[[Report], None]
    """Called with the report of a transform; it may raise an error."""
    stack: ExitStack
    """Removes temporary files."""
    output: Path | None = field(init=False)
    """Path to write; None for models in memory."""
    state: Snapshot = field(init=False)
    """The model after the changes so far."""
    result: Any = None
    """The returned model or path."""
    is_changed: bool = False
    """Whether any transform changed the model."""

    def __post_init__(self) -> None:
        self.output = resolve_output(self.saving.output)
        model = declaring(self.model, self.checks.options.assume)  # all later steps see the assumptions
        self.state = Snapshot(model, self.output, self.stack, self.original.written)
        self.report.source, self.report.output = model_name(self.source), str(self.saving.output or "")
        self.report.assumptions = assumption_lines(self.state.model.skeleton)

    def add(self, report: Report) -> None:
        """Add the report of a transform to the steps, unless it is there, by itself or as a step of another."""
        report.source, report.output = self.report.source, self.report.output
        report.assumptions = assumption_lines(self.state.model.skeleton)  # an earlier transform may declare some
        if not self.report.holds(report):
            self.report.steps.append(report)

    def expand(self, compound: Compound) -> Sequence[Transform | Compound]:
        """The parts of a compound for the model after the changes so far."""
        return compound.expand(self._draft(), self.checks)

    def apply(self, transform: Transform, *, is_last: bool) -> None:
        """Apply one transform, establish its claim, and save the result of the last."""
        draft = self._draft()
        with self.checks.timer.phase("match"):
            claim = transform.apply(draft, self.checks)
        try:
            claim, draft = self._establish_or_less(claim, draft, is_last=is_last)
        finally:
            claim.report.timed(self.checks.timer.seconds)
        self.checks = replace(self.checks, options=_renamed_inputs(draft, self.checks.options), timer=PhaseTimer())
        if claim.changed:
            self.is_changed = True
            self.state = Snapshot(draft, self.output, self.stack)

    def _establish_or_less(self, claim: Claim, draft: ModelDraft, *, is_last: bool) -> tuple[Claim, ModelDraft]:
        """The claim that holds, and its draft: the given one, or one with a smaller claim.  Raises if none holds."""
        while True:
            self.add(claim.report)
            self.agree(claim.report)
            failure = self._settle(draft, claim, is_last=is_last)
            if failure is None:
                return claim, draft
            draft = self._draft()
            smaller = claim.less(failure, draft) if claim.less is not None else None
            if smaller is None:
                message = f"{failure.message}; nothing was written."
                if failure.is_invalid:
                    raise GraphError(message)
                raise CheckFailed(message, next(step for step in self.report.steps if step.holds(claim.report)))
            claim = smaller

    def _draft(self) -> ModelDraft:
        """A fresh draft of the model after the changes so far."""
        draft = ModelDraft(self.state.model)
        draft.snapshot = self.state
        draft.runs = None if self.checks.is_off else TrialRuns(self.state, self.output, self.checks.options)
        return draft

    def _settle(self, draft: ModelDraft, claim: Claim, *, is_last: bool) -> Failure | None:
        """Establish a claim, and save the model if it is the last; returns the failure if the claim does not hold."""
        after = Snapshot(draft, self.output, self.stack)
        if self.checks.dry_run:
            return self._establish(after, claim) if claim.runs_before else None
        if claim.prove is not None and self.checks.sites:
            failure = claim.prove(self.state)
            if failure is not None:
                return failure
        if claim.confirm is not None:
            claim.confirm()
        if not is_last:
            return self._establish(after, claim)
        with self.checks.timer.phase("write"):
            return self._save(draft, claim, after)

    def _save(self, draft: ModelDraft, claim: Claim, after: Snapshot) -> Failure | None:
        """Write the model, establish the claim on the written model, and keep it if the claim holds."""
        if not claim.changed and not self.is_changed:
            draft = ModelDraft(self.model)  # nothing depends on the user's assumptions: the bytes stay
        if self.output is None:
            made = draft.patch().to_proto()
            after.written_at(made)
            failure = self._establish(after, claim)
            is_same = not claim.changed and not self.is_changed and not is_proto(self.source)
            self.result = self.source if is_same or failure is not None else returned(self.source, made, draft.held)
            return failure
        how = self.saving
        patch = draft.patch(self.output, whole=how.external_data not in ("auto", "copy"))
        replaces = self.output.exists() and not is_source(self.model, self.output)
        with saving_model(self.model, patch, self.output, external_data=how.external_data, force=how.force) as written:
            after.written_at(written.path)
            failure = self._establish(after, claim)
            after.written_at(None)
            written.is_kept = failure is None
            if failure is None:
                self.report.saved(written.copied, written.new, replaces)
        self.result = self.output
        return failure

    def _establish(self, after: Snapshot, claim: Claim) -> Failure | None:
        """Whether a change satisfies its claim, as far as the checks require; returns the failure if it does not."""
        if not claim.changed:
            return None
        if self.checks.progress is not None and claim.prove is not None:
            self.checks.progress("check", len(claim.sites))
        with self.checks.timer.phase("check"):
            found = self._examine(after, claim, self.checks.options)
            claim.report.record(found.result)
        if not found.reason:
            return None

        def is_wrong(draft: ModelDraft) -> bool:
            with ExitStack() as stack:
                trial, options = Snapshot(draft, self.output, stack), replace(self.checks.options, layers=False)
                tried = self._examine(trial, claim, options)
                return bool(tried.reason) and not tried.is_doubt

        return found._replace(is_wrong=is_wrong)

    def _examine(self, after: Snapshot, claim: Claim, options: CheckOptions) -> Failure:
        """Check the structure of a result, whether it loads, and its relation to the model before; no reason if right.

        If the change has sites, a compared result without a failure is loaded only if it may not have run.
        """
        checks, words, has_sites = self.checks, claim.words, claim.prove is not None
        failure = claim.inspect(after) if claim.inspect is not None else None
        if failure is not None:
            return failure
        if not (has_sites and checks.is_off):
            complaint = structural_fault(self.state.model, after.opened)
            if complaint is not None and has_sites:
                return Failure.of(f"it is invalid: {complaint}", words.differs)
            if complaint is not None:
                return Failure(complaint, f"{words.invalid} ({complaint})", is_invalid=True)
        compares = checks.whole == "always" or (checks.whole == "auto" and not claim.structure and not has_sites)
        result: CheckResult | None = None
        if has_sites and compares:
            result = claim.relation(self.state, after.runnable(), options)
        is_between = isinstance(after.opened, Model)  # the last result is loaded anyway
        may_not_load = result is None or result.outcome is Outcome.UNPROVED
        if may_not_load and not (is_between and claim.structure and not compares):
            made, folder = after.loadable()
            before = (find() for find in (self.original.runnable, *claim.originals))  # few results are refused
            count = after.node_count()
            loaded = loading(before, made, options, claim.tolerated, folder=folder, node_count=count)
            claim.report.refused = loaded.note
            if loaded.fault:
                return Failure.of(loaded.fault, words.differs if has_sites else words.unloadable, result)
        if result is None and compares:
            result = claim.relation(self.state, after.runnable(), options)
        if result is None or result.outcome is Outcome.PROVED:
            return Failure("", result=result)
        if result.outcome is Outcome.FAILED:
            return Failure.of(result.reason or "it differs", words.differs, result)
        doubt = Failure.of(result.reason, words.doubted, result) if checks.require_proof else Failure("", result=result)
        return doubt._replace(is_doubt=True)


def _renamed_inputs(draft: ModelDraft, options: CheckOptions) -> CheckOptions:
    """The same options with the user's inputs under the names that a change gives them, for later changes."""
    names = {} if not options.inputs else {draft.claim.original(value.name): value.name for value in draft.graph.input}
    if draft.claim.made or all(old == new for old, new in names.items()):
        return options
    from surgeon.runtime.inputs.user_inputs import read_inputs  # not at the top: few runs have inputs of the user

    given = [one.arrays for one in read_inputs(draft.before.skeleton, options.inputs)]
    return replace(options, inputs=[{names.get(name, name): held[name] for name in held} for held in given])
