"""Checks the claim of an edited model: runs it and the original, and compares outputs."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import ModelProto

from surgeon.errors import UsageError
from surgeon.file.model import Model
from surgeon.file.save import OutputModel
from surgeon.ops.traversal import uses_float16
from surgeon.pipeline.editing.claim import ModelClaim
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.dynamic_dims_check import check_beyond_fixed_size
from surgeon.pipeline.editing.structural_proof import structural_difference
from surgeon.pipeline.editing.subgraph import extract
from surgeon.proof.check_options import CheckOptions
from surgeon.proof.check_result import CheckResult, Outcome
from surgeon.proof.model.comparison_tally import ComparisonTally, build_check_result, tolerances
from surgeon.proof.model.decoding_check import compare_decoding
from surgeon.proof.model.exposed_outputs import exposing, produced_tensors
from surgeon.proof.model.original_runs import OriginalRuns
from surgeon.proof.model.trial import Trial
from surgeon.runtime.inputs.input_generator import InputGenerator, InputsUnknown
from surgeon.runtime.inputs.user_inputs import InputSet, read_inputs
from surgeon.runtime.sessions.engine_names import both_engines
from surgeon.runtime.sessions.isolated_session import IsolatedRuntime
from surgeon.runtime.sessions.ort_session import SessionError

Arrays = dict[str, np.ndarray]
STAGED = (
    "The added nodes were run separately, on outputs of the original, because the runtime skips roundings to float16 "
    "between nodes. The other nodes are those of the original."
)
MAX_INPUT_SETS = 4  # sets of inputs generated for the edited model if the original's are computed from them


def check_claim(draft: ModelDraft, original: OutputModel, edited: OutputModel, options: CheckOptions) -> CheckResult:
    """Run both models and compare every output of the edited one with its claimed tensor.

    The original runs on generated inputs or on the user's; the claim maps them to inputs of the edited model.  Errors
    of a model are outcomes.  Raises UsageError for invalid options.
    """
    started = time.perf_counter()
    before, after, claim = draft.before.skeleton, draft.skeleton, draft.claim
    if claim.untold:
        return CheckResult(
            Outcome.UNPROVED, claim.untold, (), seconds=time.perf_counter() - started, runs=0, tolerance={}
        )
    if claim.decodes:
        found = compare_decoding((draft.before, lambda: original), (draft, lambda: edited), options)
        return replace(found, seconds=time.perf_counter() - started)
    away = IsolatedRuntime(options.required(), options.run_time)
    rtol, atol = tolerances(before, options)
    roles = _Roles.of(before, after, claim)
    with ExitStack() as stack:
        try:
            fed = roles.made_sets(before, after, claim, options) if claim.made else {}
        except InputsUnknown as unknown:
            why = f"Inputs cannot be generated: {unknown.reason}."
            return CheckResult(Outcome.UNPROVED, why, (), seconds=time.perf_counter() - started, runs=0, tolerance={})
        given: Sequence[InputSet] = list(fed.values()) if fed else read_inputs(before, options.inputs)
        shown = stack.enter_context(exposing(original, roles.inner, only=roles.part)) if roles.inner else original
        dims = {} if given else {**options.dims, **claim.sizes}
        trials = _ShownTrials(shown, before, seed=options.seed, dims=dims, away=away, given=given, roles=roles)
        is_same = claim.by_structure and not structural_difference(before, after, claim)
        trials.run(None if claim.answers or is_same else edited, tables=not roles.part)
        tally = ComparisonTally(trials, rtol, atol)
        if trials.notes.unavailable_because:
            outcome, reason = Outcome.UNPROVED, trials.notes.unavailable_because
        else:
            refusal = _answer(edited, roles, claim, fed=fed, trials=trials, tally=tally, away=away)
            outcome, reason = refusal or tally.outcome()
            if not refusal and outcome is Outcome.FAILED and claim.answers and uses_float16(before):
                staged = _in_stages(draft, edited, roles, trials=trials, tolerances=(rtol, atol), away=away)
                if staged is not None:
                    tally, (outcome, reason) = staged
        found = build_check_result(outcome, reason, tally, started=started, asked=(rtol, atol))
        if claim.freed and outcome is Outcome.PROVED:
            outcome, detail, more = check_beyond_fixed_size(draft, original, edited, options)
            worst = {error.name: error for error in found.outputs}
            worst.update({item.error.name: item.error for item in more if not item.error.ok})
            reason = f"{detail[0].upper()}{detail[1:]}{f'; {reason}' if reason else ''}."
            taken = time.perf_counter() - started
            found = replace(found, outcome=outcome, reason=reason, outputs=tuple(worst.values()), seconds=taken)
        if claim.beyond and found.outcome is Outcome.FAILED:
            found = replace(found, outcome=Outcome.UNPROVED, reason=f"{claim.beyond} ({found.reason})")
        oracle = both_engines(trials.answered_by, trials.notes.oracle) if found.oracle else ""
        return replace(found, oracle=oracle)


def proved_by_structure(found: CheckResult) -> CheckResult:
    """An unproved check of a model whose nodes are those of the original: proved by structure."""
    note = f"The nodes are those of the original, except for names; running the models proved nothing: {found.reason}"
    return replace(found, outcome=Outcome.PROVED, reason=note)


@dataclass(frozen=True, slots=True)
class _Roles:
    """Which tensors of the original the edited model reads as inputs and returns as outputs."""

    feeds: Mapping[str, str]
    """By input of the edited model, the name of its tensor in the original."""
    answers: Mapping[str, str]
    """By output of the edited model, the name of its tensor in the original."""
    inner: Sequence[str]
    """Inner tensors that the original has to expose."""
    part: bool
    """Whether the original exposes only `inner`, so that nodes they do not need are not run."""
    tensors: Collection[str]
    """All tensors of the original."""

    @classmethod
    def of(cls, before: ModelProto, after: ModelProto, claim: ModelClaim) -> "_Roles":
        """The roles that follow from a claim."""
        feeds = {value.name: claim.original(value.name) for value in after.graph.input}
        answers = {value.name: claim.original(value.name) for value in after.graph.output}
        outputs = {value.name for value in before.graph.output}
        sources = {source: claim.answers[source].sources for source in answers.values() if source in claim.answers}
        wanted = {*(set(answers.values()) - sources.keys()), *(one for made in sources.values() for one in made)}
        asked, made = {*feeds.values(), *wanted}, produced_tensors(before)
        part = not outputs <= asked and wanted <= set(made)
        inner = [name for name in made if name in asked and (part or name not in outputs)]
        return cls(feeds, answers, inner, part=part, tensors={*made, *outputs, *feeds.values()})

    def made_sets(
        self, before: ModelProto, after: ModelProto, claim: ModelClaim, options: CheckOptions
    ) -> dict[str, "_MadeSet"]:
        """Inputs of the edited model and of the original that follow from them, by name of their trial.

        They are the user's or generated.
        """
        found: dict[str, _MadeSet] = {}
        for source, fed in _fed(after, options):
            held = {self.feeds[name]: array for name, array in fed.items()}
            arrays = {value.name: held[value.name] for value in before.graph.input if value.name in held}
            for name, how in claim.made.items():
                arrays[name] = how.change(*(held[source] for source in how.sources))
            made = _MadeSet(source, arrays, fed)
            found[str(made)] = made
        return found

    def feed(self, trial: Trial) -> Arrays:
        """Inputs of the edited model, from a run of the original."""
        held = {**trial.outputs, **trial.feeds}
        return {name: held[source] for name, source in self.feeds.items() if source in held}

    def expected(self, held: Mapping[str, np.ndarray], claim: ModelClaim) -> Arrays:
        """Expected outputs of the edited model, from the values of a run of the original.

        A sequence has the values `name[i]` and `len(name)`.
        """
        found: Arrays = {}
        for name, source in self.answers.items():
            made = claim.answers.get(source)
            if made is not None:
                found[name] = made.change(*(held[one] for one in made.sources))
                continue
            parts = [part for part in held if part == source or (part not in self.tensors and is_part_of(part, source))]
            found.update({renamed_part(part, source, name): held[part] for part in parts})
        return found

    def dependents(self, unstable: Sequence[str], claim: ModelClaim) -> list[str]:
        """Outputs of the edited model that depend on values which differ between runs of the original."""
        found = {name: claim.answers.get(source) for name, source in self.answers.items()}
        sources = {name: (self.answers[name],) if made is None else made.sources for name, made in found.items()}
        return [name for name, of in sources.items() if any(is_part_of(part, one) for part in unstable for one in of)]


def _fed(after: ModelProto, options: CheckOptions) -> Iterator[tuple[str, Arrays]]:
    """Sets of inputs for an edited model, and their source: the user's, else generated.  Raises InputsUnknown."""
    given = read_inputs(after, options.inputs)
    yield from ((one.source, one.arrays) for one in given)
    if given:
        return
    plan = InputGenerator(after)
    known = {name: size for name, size in options.dims.items() if name in plan.free}
    for number, sizes in enumerate([*plan.size_sets(known), *plan.fallback_sets(known)][:MAX_INPUT_SETS]):
        yield f"seed {options.seed + number}", plan.generate(options.seed + number, sizes)


def is_part_of(part: str, name: str) -> bool:
    """Whether a value of a run is the tensor of this name, or part of the sequence of this name."""
    return _split(part, name) is not None


def renamed_part(part: str, name: str, new: str) -> str:
    """Name of such a value if the tensor or sequence has another name."""
    before, after = _split(part, name) or ("", part.removeprefix(name))
    return f"{before}{new}{after}"


def _split(part: str, name: str) -> tuple[str, str] | None:
    """Prefix and suffix around a name in the name of a value: y[0], len(y), keys(y[0])."""
    for before, end in (("", ""), ("len(", ")"), ("keys(", ")")):
        after = part.removeprefix(before + name)
        if part.startswith(before + name) and after.endswith(end) and (after == end or after.startswith("[")):
            return before, after
    return None


class _ShownTrials(OriginalRuns):
    """Trials of an original with outputs under the names of the edited model."""

    def __init__(self, *rest: Any, roles: _Roles, **named: Any) -> None:
        super().__init__(*rest, **named)
        self._roles = roles
        self.answered_by = ""  # session that ran the edited model
        self._own: dict[int, Trial] = {}  # by id() of a trial, the trial with the original's outputs

    def show(self, trial: Trial, claim: ModelClaim) -> None:
        """Replace the outputs of the original by the expected outputs of the edited model."""
        self._own[id(trial)] = replace(trial)
        trial.unstable = self._roles.dependents(trial.unstable, claim)
        trial.outputs = self._roles.expected({**trial.outputs, **trial.feeds}, claim)

    def own(self, trial: Trial) -> Arrays:
        """Inputs and outputs of the original, by its names."""
        return {**self._own[id(trial)].outputs, **trial.feeds}

    def noise(self, trials: Sequence[Trial]) -> list[dict[str, float]]:
        """Rounding noise of outputs that are tensors of the original, by the edited model's names."""
        moved = super().noise([self._own[id(trial)] for trial in trials])
        return [{name: found.get(source, 0.0) for name, source in self._roles.answers.items()} for found in moved]


@dataclass(frozen=True, slots=True)
class _MadeSet(InputSet):
    """Inputs of the original that are computed from inputs of the edited model."""

    fed: Arrays
    """Inputs of the edited model."""


def _answer(
    edited: OutputModel,
    roles: _Roles,
    claim: ModelClaim,
    fed: Mapping[str, _MadeSet],
    trials: _ShownTrials,
    tally: ComparisonTally,
    away: IsolatedRuntime,
) -> tuple[Outcome, str] | None:
    """Run the edited model on its claimed inputs; return an outcome only if it does not run."""
    where = ""
    try:
        with away.open(edited) as session:
            trials.answered_by = session.name
            for trial in trials.runs:
                where = f" on the inputs of {trial.source}" if trial.source else ""
                feeds = fed[trial.source].fed if trial.source in fed else roles.feed(trial)
                lost = [name for name in session.inputs if name not in feeds]
                if lost and f"len({roles.feeds[lost[0]]})" in trial.outputs:
                    return Outcome.UNPROVED, f"The input '{lost[0]}' is a sequence, which surgeon does not generate."
                if lost:
                    return Outcome.FAILED, f"The edited model has an input '{lost[0]}' that the original does not have."
                trials.show(trial, claim)
                tally.run_trial(trial, session, {name: feeds[name] for name in session.inputs})
    except SessionError as refused:
        if refused.is_unsupported:
            return Outcome.UNPROVED, f"No installed runtime runs the edited model: {refused.message}"
        return Outcome.FAILED, f"The original runs{where}, but the edited model does not: {refused.message}"
    return None


def _in_stages(
    draft: ModelDraft,
    edited: OutputModel,
    roles: _Roles,
    trials: _ShownTrials,
    tolerances: tuple[float | None, float | None],
    away: IsolatedRuntime,
) -> tuple[ComparisonTally, tuple[Outcome, str]] | None:
    """Check the edited model in two parts: the original's nodes, and the appended nodes on outputs of the original.

    ONNX Runtime omits roundings between two float16 nodes, so a selection after them may jump.  None if the model does
    not consist of two such parts, or if the second also differs.
    """
    bears = {source: name for name, source in draft.claim.tensors.items()}
    answers = draft.claim.answers
    added = [name for name, source in roles.answers.items() if source in answers]
    sources = list(dict.fromkeys(source for name in added for source in answers[roles.answers[name]].sources))
    ends = [bears.get(source, source) for source in sources]
    try:
        with Model.open(edited) as after:
            before, own, behind = ModelDraft(draft.before), ModelDraft(after), ModelDraft(after)
            extract(before, (), sources)
            extract(own, (), ends)
            extract(behind, ends, added)
            if structural_difference(before.skeleton, own.skeleton, draft.claim):
                return None
            part = behind.patch().to_proto()
        tally = ComparisonTally(trials, *tolerances)
        with away.open(part) as session:
            for trial in trials.runs:
                held = trials.own(trial)
                answer = session.run({name: held[source] for name, source in zip(ends, sources, strict=True)})
                tally.add(trial, {**trial.outputs, **answer})
    except (UsageError, SessionError):
        return None
    outcome, reason = tally.outcome()
    return (tally, (outcome, f"{STAGED} {reason}".rstrip())) if outcome is not Outcome.FAILED else None
