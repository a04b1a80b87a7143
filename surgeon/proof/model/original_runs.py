"""The runs of an original: sets of inputs with its outputs, for any number of models to compare with it.

The inputs are the user's, or generated for the graph.  Inputs that the original rejects are left out; if it rejects
all, `TrialNotes.unavailable_because` has the reason.
"""

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from typing import NamedTuple

import numpy as np
from onnx import ModelProto

from surgeon.errors import ModelFileError
from surgeon.file.model import Model
from surgeon.proof.cases.cache_limit import CacheLimit, cache_limits
from surgeon.proof.model.distinguishing_inputs import DistinguishingInputs, away_from_ties
from surgeon.proof.model.hidden_rows import HiddenRows
from surgeon.proof.model.model_cost import ModelCost
from surgeon.proof.model.model_region import ModelRegion
from surgeon.proof.model.output_noise import measure_noise
from surgeon.proof.model.trial import Trial, TrialNotes
from surgeon.proof.model.trial_generator import MUCH, TrialGenerator
from surgeon.proof.model.usable_answers import non_repeating_outputs
from surgeon.runtime.inputs.consistent_sizes import initial_sizes
from surgeon.runtime.inputs.input_generator import InputGenerator, InputsUnknown
from surgeon.runtime.inputs.string_values import vocabulary
from surgeon.runtime.inputs.user_inputs import InputSet
from surgeon.runtime.sessions.isolated_session import IsolatedRuntime
from surgeon.runtime.sessions.model_session import ModelSession
from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.shapes.constraints.input_dims import check_dim_names

Arrays = Mapping[str, np.ndarray]
_CALM = 4  # sets near inputs at which results jump: at one of them the original may be flat


class _Other(NamedTuple):
    """The facts about a model that is compared with the original."""

    pair: DistinguishingInputs | None = None
    """Numbers and tables by which the two may differ."""
    theirs: InputGenerator | None = None
    """Its inputs."""
    limits: tuple[CacheLimit, ...] = ()
    """Sizes that it refuses."""


class OriginalRuns:
    """All trials of one original; `run` makes them.

    runs: the trials.  rows: finds fully masked rows.
    """

    def __init__(
        self,
        original: pathlib.Path | ModelProto,
        skeleton: ModelProto,
        *,
        seed: int,
        dims: Mapping[str, int],
        away: IsolatedRuntime,
        given: Sequence[InputSet] = (),
    ) -> None:
        """Read the inputs of the model; raises UsageError when `dims` names a dim that no input has."""
        self.original = original
        self.away = away
        self.rows = HiddenRows(original, skeleton, away)
        self.runs: list[Trial] = []
        self.notes = TrialNotes("" if skeleton.graph.output else "The model has no outputs to compare.")
        self._given = given
        self._seed = seed
        self._dims = dims
        self._plan: InputGenerator | None = None
        self._noise: dict[int, dict[str, float]] = {}  # by id() of the trial
        self._done = bool(self.notes.unavailable_because)
        if given or self._done:
            return
        try:
            self._plan = InputGenerator(skeleton)
        except InputsUnknown as unknown:
            self._stop(f"Inputs cannot be generated: {unknown.reason}.")
        else:
            check_dim_names(self._plan.free, dims)

    def run(
        self, other: pathlib.Path | ModelProto | None = None, *, exactly: bool = False, tables: bool = True
    ) -> None:
        """Run the original on everything, on the first call.

        other: a model to compare with it: inputs at which the two are most likely to differ come last.  exactly,
        tables: as in `DistinguishingInputs.of`.
        """
        if self._done:
            return
        self._done = True
        known = _Other() if other is None else self._other(other, exactly=exactly, tables=tables)
        try:
            with self.away.open(self.original) as session:
                self.notes.oracle = session.name
                if self._plan is None:
                    self.runs.extend(self._given_trials(session))
                else:
                    self._generate(session, self._plan, known)
        except InputsUnknown as unknown:
            self._stop(f"Inputs cannot be generated: {unknown.reason}.")
        except SessionError as refused:
            self._stop(f"ONNX Runtime does not load the original: {refused.message}")
        notes = self.notes
        if not self.runs and not notes.unavailable_because:
            why = "The original does not run on the generated inputs; try other sizes or --inputs"
            notes.unavailable_because = notes.refused or f"{why}. {notes.oracle}: {notes.refusal}"

    def _other(self, other: pathlib.Path | ModelProto, *, exactly: bool, tables: bool) -> "_Other":
        """The facts about another model that choose inputs."""
        theirs: InputGenerator | None = None
        if self._plan is None:
            return _Other()
        try:
            with Model.open(self.original) as before, Model.open(other) as after:
                self._plan.speak(vocabulary(after.skeleton))
                with suppress(InputsUnknown):
                    theirs = InputGenerator(after.skeleton)
                pair = DistinguishingInputs.of(before, after, exactly=exactly, tables=tables)
                return _Other(pair, theirs, tuple(cache_limits(after)))
        except ModelFileError:
            return _Other(theirs=theirs)  # an unreadable model is reported where it is to run

    def _generate(self, session: ModelSession, plan: InputGenerator, other: "_Other") -> None:
        """Add a trial for each case that the original runs on; note which tables no case has looked up."""
        pair, theirs, limits = other
        region = ModelRegion(self.original, plan, dims=self._dims, pair=pair, theirs=theirs, limits=limits)
        generator = TrialGenerator(session, plan, region, seed=self._seed, notes=self.notes)
        usual = initial_sizes(self.original, plan, self._dims, lambda: not self.runs)
        for trial in generator.trials(usual, iter(plan.fallback_sets(self._dims))):
            self.runs.append(trial)
        if pair is not None:
            fed, lengths = [trial.feeds for trial in self.runs], region.lengths(trial.sizes for trial in self.runs)
            self.notes.unvisited_tables = pair.unvisited_tables(plan, fed, lengths)

    def noise(self, trials: Sequence[Trial]) -> list[dict[str, float]]:
        """Return how far rounding moves each output of the original, by trial; measured once for each."""
        unknown = [trial for trial in trials if id(trial) not in self._noise]
        if unknown:
            sets = [*self._noise_inputs(unknown)]
            measured = measure_noise(self.original, self.away, [(feeds, outputs) for _, feeds, outputs in sets])
            for (trial, *_), moved in zip(sets, measured, strict=True):
                known = self._noise.setdefault(id(trial), {})
                known.update((name, max(known.get(name, 0.0), far)) for name, far in moved.items())
        return [self._noise[id(trial)] for trial in trials]

    def _noise_inputs(self, trials: Sequence[Trial]) -> Iterator[tuple[Trial, Arrays, Arrays]]:
        """Inputs to measure noise on for each trial, with the original's outputs: none if it refuses the inputs."""
        yield from ((trial, trial.feeds, trial.outputs) for trial in trials if not trial.decides)
        deciding = [trial for trial in trials if trial.decides]
        if not deciding or self._plan is None:
            return
        with self.away.open(self.original) as session:
            for trial, number in product(deciding, range(_CALM)):
                feeds = away_from_ties(self._plan, trial.feeds, self._seed + number)
                try:
                    yield trial, feeds, session.run(feeds)
                except SessionError:
                    yield trial, feeds, {}

    def _stop(self, why: str) -> None:
        self.runs.clear()
        self.notes.unavailable_because, self._done = why, True

    def _given_trials(self, session: ModelSession) -> Iterator[Trial]:
        """Yield a trial for each of the user's sets that the original runs on; note the first other."""
        cost, work = ModelCost(self.original), 0
        for given in self._given:
            try:
                outputs = session.run(given.arrays)
                again = session.run(given.arrays) if work < MUCH else outputs
            except SessionError as refused:
                self.notes.refused = (
                    self.notes.refused or f"The original does not run on the inputs from {given}: {refused.message}"
                )
                continue
            work = max(work, cost.of(given.arrays))
            yield Trial(given.arrays, outputs, non_repeating_outputs(outputs, again), {}, source=str(given))
