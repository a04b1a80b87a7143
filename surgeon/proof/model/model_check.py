"""Comparison of whole models: one original, and any number that are compared with it.

They run under ONNX Runtime, with users' Python implementations of operators that it has no kernel for.
"""

import time
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from onnx import ModelProto

from surgeon.ops.traits.trait_lookup import random_among
from surgeon.proof.check_options import CheckOptions, require_options, resolve_options
from surgeon.proof.check_result import CheckResult, LayerComparison, Outcome
from surgeon.proof.model.comparison_tally import ComparisonTally, build_check_result, tolerances
from surgeon.proof.model.layer_comparison import compare_layers
from surgeon.proof.model.original_runs import OriginalRuns
from surgeon.proof.model.trial import Trial
from surgeon.runtime.inputs.user_inputs import read_inputs
from surgeon.runtime.sessions.engine_names import both_engines
from surgeon.runtime.sessions.isolated_session import IsolatedRuntime
from surgeon.runtime.sessions.model_session import ModelSession
from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.shapes.constraints.input_dims import required_inputs

__all__ = ["CheckResult", "ModelCheck", "Outcome", "require_options"]


class ModelRuntime(Protocol):
    """Opens a model to run it, as `IsolatedRuntime` does."""

    def open(self, model: Path | ModelProto) -> ModelSession:
        """Return a session for it.  Raises SessionError."""
        ...


class ModelCheck:
    """An original to compare rewritten models with: it runs once, with the first of them.

    `skeleton` is the original without its large payloads: enough to generate inputs.  The two models are never in
    memory at once.  Of `options`, `rtol` and `atol` replace the tolerance of each dtype: an element may differ by atol
    + rtol * scale, where scale is the output's largest magnitude in the original.  With `inputs` no others are
    generated.

    `other` is the name of the other models in messages.  `ordered`: their outputs must have the original's order;
    inputs are given by name.  `runs_other` opens these models, if the original's runtime does not.  `against` is one of
    them without its payloads, if it may compute in half precision and the original does not: then the tolerance is that
    of half precision.

    Raises UsageError for invalid options, when `dims` names a dim that no input has, and for `inputs` that do not fit
    the model.
    """

    def __init__(
        self,
        original: Path | ModelProto,
        skeleton: ModelProto,
        options: CheckOptions | None = None,
        *,
        other: str = "the rewritten model",
        ordered: bool = True,
        runs_other: ModelRuntime | None = None,
        against: ModelProto | None = None,
    ) -> None:
        options = resolve_options(options)
        self._away = IsolatedRuntime(options.required(), options.run_time)
        self._runs_other = runs_other or self._away
        self._original = original
        self._skeleton = skeleton
        self._rtol, self._atol = tolerances(skeleton, options, against)
        self._layers = options.layers
        self._other = other
        self._ordered = ordered
        self._oracle = ""  # of the last model that was compared
        self._trials = OriginalRuns(
            original,
            skeleton,
            seed=options.seed,
            dims=options.dims,
            away=self._away,
            given=read_inputs(skeleton, options.inputs),
        )

    def check(self, rewritten: Path | ModelProto, *, layers: bool | None = None) -> CheckResult:
        """Run the rewritten model on all trials and compare every output with the original's.

        The first one influences the trials: they include inputs at which it and the original are most likely to differ.

        layers: whether to compare inner tensors too; None for the value of the options.  A failing model never raises:
        every way of not running is an outcome.
        """
        started = time.perf_counter()
        self._trials.run(rewritten, exactly=self._runs_other is not self._away)
        tally = ComparisonTally(self._trials, self._rtol, self._atol, random_among(self._skeleton.graph.node))
        compared: LayerComparison | None = None
        if self._trials.notes.unavailable_because:
            outcome, reason = Outcome.UNPROVED, self._trials.notes.unavailable_because
        else:
            refusal = self._answer(rewritten, tally)
            outcome, reason = refusal or tally.outcome()
            if (self._layers if layers is None else layers) and refusal is None:
                compared = self._compare_layers(rewritten, tally.most_informative)
        found = build_check_result(outcome, reason, tally, started=started, asked=(self._rtol, self._atol))
        oracle = both_engines(self._oracle, self._trials.notes.oracle) if found.runs else ""
        return replace(found, layers=compared, oracle=oracle)

    def _answer(self, rewritten: Path | ModelProto, tally: ComparisonTally) -> tuple[Outcome, str] | None:
        """Run the rewritten model on all trials; return an outcome only if that fails."""
        where, self._oracle = "", ""
        try:
            with self._runs_other.open(rewritten) as session:
                self._oracle = session.name
                complaint = self._interface(session)
                if complaint:
                    return Outcome.FAILED, complaint
                for trial in self._trials.runs:
                    where = f" on the inputs from {trial.source}" if trial.source else ""
                    tally.run_trial(trial, session, trial.feeds)
        except SessionError as refused:
            if refused.is_unsupported:
                return Outcome.UNPROVED, f"No runtime here runs {self._other}: {refused.message}"
            return Outcome.FAILED, f"The original runs{where}, but {self._other} does not: {refused.message}"
        return None

    def _interface(self, session: ModelSession) -> str | None:
        """How the rewritten model's inputs or outputs differ in name from the original's; None if they do not."""
        other = self._other[0].upper() + self._other[1:]
        wanted, feeds = required_inputs(self._skeleton.graph), self._trials.runs[0].feeds
        for name in feeds:
            if name not in session.inputs and name in wanted:
                return f"{other} does not have the input '{name}' of the original."
        for name in session.inputs:
            if name not in feeds:
                return f"{other} has an input '{name}', which the original does not have."
        outputs = tuple(value.name for value in self._skeleton.graph.output)
        same = outputs == session.outputs if self._ordered else sorted(outputs) == sorted(session.outputs)
        if not same:
            return f"{other} has the outputs {list(session.outputs)}, but the original has {list(outputs)}."
        return None

    def _compare_layers(self, rewritten: Path | ModelProto, trial: Trial) -> LayerComparison:
        return compare_layers(
            self._original,
            rewritten,
            skeleton=self._skeleton,
            trial=trial,
            away=self._away,
            rtol=self._rtol,
            atol=self._atol,
        )
