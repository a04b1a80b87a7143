"""The comparison of one model with the trials of an original, and its result."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from onnx import ModelProto

from surgeon.proof.check_options import CheckOptions
from surgeon.proof.check_result import CheckResult, Outcome
from surgeon.proof.model.half_precision import half_of
from surgeon.proof.model.hidden_rows import HIDDEN
from surgeon.proof.model.original_runs import OriginalRuns
from surgeon.proof.model.output_noise import MAX_NOISE
from surgeon.proof.model.trial import Trial
from surgeon.runtime.numerics.array_comparison import (
    Comparison,
    OutputError,
    compare,
    count_newly_finite,
    dtype_name,
    ignore_non_finite,
    tolerance,
    tolerances_in_force,
    uninformative_message,
    uninformative_outputs,
)
from surgeon.runtime.numerics.tensor_judge import ROUNDING_FACTOR
from surgeon.runtime.sessions.model_session import ModelSession
from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.shapes.constraints.input_dims import sizes_text
from surgeon.text import join_first

BEYOND_ORIGINAL = "inputs on which the original returns NaN or infinity"
"""Name of inputs for which only the original is not finite."""


@dataclass(slots=True)
class ComparisonTally:
    """One model compared with the trials of the original: `add` each answer, then ask for `outcome`."""

    trials: OriginalRuns
    """Runs of the original."""
    rtol: float | None
    """In place of the default of each dtype."""
    atol: float | None
    """In place of the default of each dtype."""
    hint: str = ""
    """A likely cause if the original is not deterministic, as a clause."""
    made: list[tuple[Trial, Comparison]] = field(default_factory=list)
    """Comparisons that count, each with its trial."""
    dropped: set[int] = field(default_factory=set)
    """`id` of each trial that is not informative."""
    informational: dict[str, list[tuple[Trial, OutputError, str]]] = field(default_factory=dict)
    """Differences that do not fail the check, by the kind of inputs: trial, error, description."""
    hidden: list[tuple[Trial, Comparison, Comparison | None, bool]] = field(default_factory=list)
    """Failures that disappear without fully masked rows; see `_note_hidden`."""
    failed_on: tuple[str, ...] = ()
    """Kinds of inputs on which the models differ, the worst first."""
    left_out: str = ""
    """Why a set of wide-ranging inputs is left out; "" if none is."""

    def __post_init__(self) -> None:
        self.left_out = self.trials.notes.excluded_because

    @property
    def used(self) -> list[Trial]:
        """The trials that count."""
        return [trial for trial in self.trials.runs if id(trial) not in self.dropped]

    @property
    def worst(self) -> dict[str, Comparison]:
        """The worst comparison of each output."""
        worst: dict[str, Comparison] = {}
        for _, comparison in self.made:
            name = comparison.error.name
            if name not in worst or comparison.error.severity >= worst[name].error.severity:
                worst[name] = comparison
        return worst

    @property
    def most_informative(self) -> Trial:
        """The trial with the worst failure that `outcome` did not accept, else the first one."""
        failed = self._failed()
        return max(failed, key=lambda pair: pair[1].error.severity)[0] if failed else self.used[0]

    def run_trial(self, trial: Trial, session: ModelSession, feeds: Mapping[str, np.ndarray]) -> None:
        """Run a model on one trial, and compare.

        Raises SessionError if it does not run, unless differences on this trial do not fail the check.
        """
        try:
            answer = session.run(feeds)
        except SessionError as refused:
            if not trial.informational:
                raise
            error = _endless_error("", "")
            message = f"only the original runs ({refused.message.rstrip('.')})"
            self.informational.setdefault(trial.strategy, []).append((trial, error, message))
        else:
            self.add(trial, answer)

    def add(self, trial: Trial, answer: Mapping[str, np.ndarray]) -> None:
        """Compare a model's outputs on one trial with the original's."""
        for name, array in trial.outputs.items():
            if name in trial.unstable:
                continue
            if name not in answer:
                self.made.append((trial, Comparison(_endless_error(name, dtype_name(array)), "is missing")))
                continue
            other = ignore_non_finite(array, answer[name]) if trial.wide else answer[name]
            found = compare(name, array, other, rtol=self.rtol, atol=self.atol, by_parts=True)
            if not found.error.ok and not trial.informational:
                self._note_hidden(trial, array, other, found)
            if not trial.informational:
                self.made.append((trial, found))
                count = count_newly_finite(array, answer[name]) if trial.wide else 0
                if count:
                    error = replace(found.error, max_abs=np.inf, ok=False)
                    why = f"is finite, but the original is not ({count} of {array.size} elements)"
                    self.informational.setdefault(BEYOND_ORIGINAL, []).append((trial, error, f"output '{name}' {why}"))
            elif not found.error.ok:
                self.informational.setdefault(trial.strategy, []).append(
                    (trial, found.error, f"output '{name}' {found.why}")
                )

    def _note_hidden(self, trial: Trial, array: np.ndarray, other: np.ndarray, found: Comparison) -> None:
        """Note a failure that disappears without fully masked rows."""
        for shown, causal, is_all in self.trials.rows.without(trial.feeds, array, other):
            rest = compare(found.error.name, array, shown, rtol=self.rtol, atol=self.atol, by_parts=True)
            if rest.error.ok:
                self.hidden.append((trial, found, None if is_all else rest, causal))
                return

    def _accept_hidden(self) -> None:
        """Move failures that are only in fully masked rows to those that do not fail the check."""
        causal: dict[int, bool] = {}
        for trial, found, rest, needs_causal in self.hidden:
            if needs_causal and not causal.setdefault(id(trial), self.trials.rows.is_causal(trial.feeds)):
                continue
            place = next(place for place, (_, made) in enumerate(self.made) if made is found)
            self.made[place : place + 1] = [] if rest is None else [(trial, rest)]
            message = f"output '{found.error.name}' {found.why}"
            self.informational.setdefault(HIDDEN, []).append((trial, found.error, message))
        self.hidden.clear()

    def differing(self) -> dict[str, str]:
        """Why the two differ, by kind of inputs on which that does not fail the check, beyond rounding noise."""
        messages: dict[str, str] = {}
        for words, found in self.informational.items():
            for trial, error, message in sorted(found, key=lambda one: -one[1].max_abs):
                is_kind = not np.isfinite(error.max_abs)
                moved = 0.0 if is_kind else self.trials.noise([trial])[0].get(error.name, 0.0)
                if is_kind or error.max_abs > error.allowed + ROUNDING_FACTOR * moved:
                    messages[words] = message
                    break
        return messages

    def outcome(self) -> tuple[Outcome, str]:
        """Return the outcome and its reason."""
        self._accept_hidden()
        failure = self._on_failure() if self._failed() else None
        if failure is not None and failure[0] is Outcome.FAILED:
            return failure
        outcome, reason = failure or self._on_success()
        differences = "; ".join(f"on {words}: {why}" for words, why in self.differing().items())
        return outcome, " ".join(
            part for part in (reason, f"The models differ {differences}." if differences else "") if part
        )

    def _failed(self) -> list[tuple[Trial, Comparison]]:
        return [(trial, comparison) for trial, comparison in self.made if not comparison.error.ok]

    def _accept(self, trial: Trial, comparison: Comparison, noise: float) -> None:
        """Accept an error that the original's own noise explains."""
        error = comparison.error
        tolerated = Comparison(replace(error, allowed=error.allowed + noise, ok=True), "")
        place = next(place for place, (_, made) in enumerate(self.made) if made is comparison)
        self.made[place] = (trial, tolerated)

    def _drop(self, trial: Trial) -> None:
        self.dropped.add(id(trial))
        self.made = [(other, comparison) for other, comparison in self.made if other is not trial]

    def _on_failure(self) -> tuple[Outcome, str] | None:
        """Failed, unless the original itself moves as far; None if its noise explains all errors."""
        failed = self._failed()
        trials = list({id(trial): trial for trial, _ in failed}.values())
        by_trial = {id(trial): moved for trial, moved in zip(trials, self.trials.noise(trials), strict=True)}
        real: list[tuple[Trial, Comparison]] = []
        blurred = ""
        chaotic: dict[int, Trial] = {}
        for trial, comparison in failed:
            error = comparison.error
            moved = ROUNDING_FACTOR * by_trial[id(trial)].get(error.name, 0.0)
            if not error.max_abs <= error.allowed + moved:
                real.append((trial, comparison))
            elif moved > MAX_NOISE * error.scale + error.allowed and trial.wide:
                chaotic[id(trial)] = trial
                self.left_out = f"rounding by itself changes output '{error.name}' of the original as much"
            elif moved > MAX_NOISE * error.scale + error.allowed:
                blurred = (
                    f"Output '{error.name}' {comparison.why}, but rounding by itself changes that of the original "
                    f"as much ({moved / ROUNDING_FACTOR:.3g})."
                )
            else:
                self._accept(trial, comparison, moved)
        for trial in chaotic.values():
            self._drop(trial)
        if real:
            real.sort(key=lambda pair: -pair[1].error.severity)
            self.failed_on = tuple(dict.fromkeys(trial.description for trial, _ in real))
            worst = real[0][1]
            return Outcome.FAILED, f"Output '{worst.error.name}' {worst.why} on {self.failed_on[0]}."
        return (Outcome.UNPROVED, blurred) if blurred else None

    def _on_success(self) -> tuple[Outcome, str]:
        """Proved, unless the comparison could not have shown a difference."""
        used = self.used
        unstable = sorted({name for trial in used for name in trial.unstable})
        if unstable:
            why = f"output '{unstable[0]}' differs between two runs{self.hint}"
            return Outcome.UNPROVED, f"The original model is not deterministic: {why}."
        if self.trials.notes.refused:
            return Outcome.UNPROVED, self.trials.notes.refused
        worst = self.worst
        expected = {name for trial in used if not trial.informational for name in trial.outputs}
        if masked := min(expected.difference(worst), default=""):
            why = f"All rows of output '{masked}' are fully masked, so nothing was compared. Give other data: --inputs."
            return Outcome.UNPROVED, why
        empty, all_are = uninformative_outputs(
            [trial.outputs for trial in used if not (trial.informational and self.informational)],
            lambda name, _: worst[name].error.allowed,
            has_inputs=bool(used[0].feeds),
        )
        if all_are and not empty:
            return Outcome.UNPROVED, "The models have no output to compare."
        if all_are:
            return Outcome.UNPROVED, uninformative_message(empty, all_are=True)
        if self.trials.notes.unvisited_tables:
            names = join_first([repr(name) for name in self.trials.notes.unvisited_tables], 2)
            why = "Tables differ, but the inputs do not reach all of their rows"
            return Outcome.UNPROVED, f"{why}: {names}. Give real data with --inputs."
        notes = [uninformative_message(empty, all_are=False)] if empty else []
        if self.left_out:
            notes.append(f"One set of wide-range inputs was left out: {self.left_out}.")
        return Outcome.PROVED, " ".join(notes)


def _endless_error(name: str, dtype: str) -> OutputError:
    """The error of an output that is not there."""
    return OutputError(name, dtype, max_abs=np.inf, max_rel=np.inf, allowed=0.0, scale=0.0, ok=False)


def tolerances(
    original: ModelProto, options: CheckOptions, other: ModelProto | None = None
) -> tuple[float | None, float | None]:
    """The tolerances that options ask for; a model that computes in half precision has its tolerance."""
    asked = options.rtol, options.atol
    halves = [half for model in (original, other) if model is not None and (half := half_of(model))]
    return tolerance(max(halves, key=lambda half: tolerance(half)), *asked) if halves else asked


def build_check_result(
    outcome: Outcome, reason: str, tally: ComparisonTally, started: float, asked: tuple[float | None, float | None]
) -> CheckResult:
    """The result of a finished check.  started: its start time; asked: tolerances in place of the defaults by dtype."""
    used = tally.used
    made = [trial for trial in used if not trial.source]
    dtypes = {dtype_name(array): None for trial in used for array in trial.outputs.values()}
    return CheckResult(
        outcome=outcome,
        reason=reason,
        outputs=tuple(comparison.error for comparison in tally.worst.values()),
        seconds=time.perf_counter() - started,
        runs=len(used),
        tolerance=tolerances_in_force(dtypes, *asked),
        oracle=tally.trials.notes.oracle if used else "",
        kinds=tuple(dict.fromkeys(trial.strategy for trial in made)),
        sizes=tuple(dict.fromkeys(sizes for trial in made if (sizes := sizes_text(trial.sizes)))),
        differs_on=tuple(tally.differing()) if outcome is not Outcome.FAILED else (),
        failed_on=tally.failed_on,
    )
