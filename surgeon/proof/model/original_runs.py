"""Trials: sets of inputs with the outputs of the original, run once for any number of models to compare with it.

The inputs are the user's, or generated for the graph: several seeds, several sizes of dynamic dims, and values of wide
range.  Inputs that the original refuses are left out; where it refuses all, `unavailable_because` says so.

A count of work decides what runs again, not a clock: a model sees the same inputs on any machine.
"""

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from onnx import ModelProto

from surgeon.errors import ModelFileError
from surgeon.file.model import Model
from surgeon.proof.model.distinguishing_inputs import LOOKED_UP, MET, DistinguishingInputs, away_from_ties
from surgeon.proof.model.edge_case_inputs import LESSER, edge_case_inputs, wants_both, with_small_rows
from surgeon.proof.model.hidden_rows import HiddenRows
from surgeon.proof.model.model_cost import ModelCost
from surgeon.proof.model.output_noise import measure_noise
from surgeon.proof.model.trial import Trial
from surgeon.proof.model.usable_answers import all_nan, has_informative_outputs, non_repeating_outputs
from surgeon.runtime.inputs.consistent_sizes import ConsistentSizes, initial_sizes
from surgeon.runtime.inputs.fractional_values import FINITE, TURNS
from surgeon.runtime.inputs.input_generator import InputGenerator, InputsUnknown, ValueKind
from surgeon.runtime.inputs.user_inputs import InputSet
from surgeon.runtime.sessions.isolated_session import IsolatedRuntime
from surgeon.runtime.sessions.model_session import ModelSession
from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.shapes.constraints.input_dims import check_dim_names

# Added to the seed, and factor on it: proofs of sites have tried the other masks, indices and sizes already.
# Always the turn that masks by the least number, which absorbs a score in any order.
_OWN_SEED, _OWN_TURNS = 1000, 6
_MORE = 3  # added to each dynamic size: even ones become odd
# Work of a run, as `ModelCost` counts it.  A model with more runs twice only on its first inputs, and once on
# wide-ranging ones (some seconds on a machine of 2024); one with still more sees one set of the usual inputs.
MUCH, VERY_MUCH = 1 << 36, 1 << 39
_LONG = 1 << 33  # on long sequences
# Sets with numbers at thresholds: many where a run is cheap; and the batches in each, where a run stays cheap.
_MANY_TURNS, _FEW_TURNS, _LITTLE = 16, 2, 1 << 22
_BATCHES, _MODERATE = 64, 1 << 28
_CALM = 4  # sets beside each of them that measure noise, because the original may be flat at one number
_MOST_HELD = 1 << 28  # bytes of outputs, about, for all rows of tables
# Kinds of wide-ranging values in turn, each with substitutes where the original gives NaN or infinity.
_WIDE_TURNS = ((ValueKind.WIDE, ValueKind.WIDE_POSITIVE), (ValueKind.LARGE, ValueKind.WIDE, ValueKind.WIDE_POSITIVE))


class OriginalRuns:
    """All trials of one original; `run` makes them.

    runs: the trials.  unavailable_because: one sentence on why there are none, else empty.  oracle: what runs the
    original.  excluded_because: why a set of generated inputs of wide range is not informative.  refused: one sentence
    on user's inputs that the original does not run on.  unvisited_tables: tables that differ from the other model's and
    of which rows may not have been looked up.
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
        self.unavailable_because = "" if skeleton.graph.output else "The model has no outputs to compare."
        self.oracle = ""
        self.excluded_because = ""
        self.refused = ""
        self.unvisited_tables: Sequence[str] = ()
        self._distinguishing: DistinguishingInputs | None = None
        self._theirs: InputGenerator | None = None  # inputs of the other model
        self._given = given
        self._seed = seed
        self._dims = dims
        self._plan: InputGenerator | None = None
        self._refusal = ""  # why the original refused its first refused inputs
        self._work = 0  # of the largest run so far
        self._noise: dict[int, dict[str, float]] = {}  # by id() of the trial
        self._done = bool(self.unavailable_because)
        if given or self._done:
            return
        try:
            self._plan = InputGenerator(skeleton)
        except InputsUnknown as unknown:
            self._stop(f"Inputs cannot be made: {unknown.reason}.")
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
        if other is not None and self._plan is not None:
            self._distinguishing = self._find_distinguishing(other, exactly=exactly, tables=tables)
        try:
            with self.away.open(self.original) as session:
                self.oracle = session.name
                self.runs.extend(self._trials(session))
        except InputsUnknown as unknown:
            self._stop(f"Inputs cannot be made: {unknown.reason}.")
        except SessionError as refused:
            self._stop(f"ONNX Runtime does not load the original: {refused.message}")
        if not self.runs and not self.unavailable_because:
            self.unavailable_because = (
                self.refused or f"The original does not run on the inputs made for it: {self._refusal}"
            )

    def _find_distinguishing(
        self, other: pathlib.Path | ModelProto, *, exactly: bool, tables: bool
    ) -> DistinguishingInputs | None:
        try:
            with Model.open(self.original) as ours, Model.open(other) as theirs:
                with suppress(InputsUnknown):
                    if self._plan is not None and wants_both(self._plan):
                        self._theirs = InputGenerator(theirs.skeleton)
                return DistinguishingInputs.of(ours, theirs, exactly=exactly, tables=tables)
        except ModelFileError:
            return None  # an unreadable model is reported where it is to run

    def noise(self, trials: Sequence[Trial]) -> list[dict[str, float]]:
        """Return how far rounding moves each output of the original, by trial; measured once for each."""
        unknown = [trial for trial in trials if id(trial) not in self._noise]
        if unknown:
            sets = [(trial, *noise_feeds) for trial in unknown for noise_feeds in self._noise_inputs(trial)]
            measured = measure_noise(self.original, self.away, [(feeds, outputs) for _, feeds, outputs in sets])
            for (trial, *_), moved in zip(sets, measured, strict=True):
                known = self._noise.setdefault(id(trial), {})
                known.update((name, max(known.get(name, 0.0), far)) for name, far in moved.items())
        return [self._noise[id(trial)] for trial in trials]

    def _noise_inputs(self, trial: Trial) -> Iterator[tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]]:
        """Inputs to measure noise on, with the original's outputs; no outputs where it refuses the inputs."""
        if not trial.noise_feeds:
            yield trial.feeds, trial.outputs
            return
        with self.away.open(self.original) as session:
            for feeds in trial.noise_feeds:
                try:
                    yield feeds, session.run(feeds)
                except SessionError:
                    yield feeds, {}

    def _stop(self, why: str) -> None:
        self.runs.clear()
        self.unavailable_because, self._done = why, True

    def _trials(self, session: ModelSession) -> Iterator[Trial]:
        """Yield the trials that the original accepts."""
        self._cost = ModelCost(self.original)
        if self._plan is None:
            yield from self._given_trials(session)
            return
        made = list(self._usual_trials(session, self._plan))
        yield from made
        if made and self._work <= MUCH:
            yield from self._own_trials(session, self._plan, made[0])
            yield from self._long_trials(session, self._plan, made[0])
        if made and self._plan.is_affected_by(ValueKind.FRACTIONS):
            yield from self._fraction_trials(session, self._plan, made[0])
        if made and self._plan.widens:
            yield from self._wide_trials(session, self._plan, made)
        if made and self._distinguishing is not None:
            wider = self._wider(session, self._plan, made[0])
            met = list(self._threshold_trials(session, self._plan, wider, self._distinguishing))
            has_masks = any(want.kind == "mask" for want in self._plan.wants)
            yield from met or ([wider] if has_masks and wider is not made[0] else [])  # for masks of all lengths
            yield from self._sized_trials(session, self._plan, made[0], self._distinguishing)
            yield from self._row_trials(session, self._plan, made[0], self._distinguishing)
            yield from self._edge_trials(session, self._plan, made[0], wider)

    def _given_trials(self, session: ModelSession) -> Iterator[Trial]:
        """Yield a trial for each of the user's sets that the original runs on; `refused` reports the first other."""
        for given in self._given:
            try:
                outputs = session.run(given.arrays)
                again = session.run(given.arrays) if self._work < MUCH else outputs
            except SessionError as refused:
                self.refused = self.refused or f"The original does not run on the inputs of {given}: {refused.message}"
                continue
            self._work = max(self._work, self._cost.of(given.arrays))
            yield Trial(given.arrays, outputs, non_repeating_outputs(outputs, again), {}, source=str(given))

    def _usual_trials(self, session: ModelSession, plan: InputGenerator) -> Iterator[Trial]:
        """Yield the trials that the original accepts: several seeds at the first sizes, one at each of the others.

        Where it refuses the usual sizes, consistent sizes come next.
        """
        seeds = range(self._seed, self._seed + plan.seeds())
        found: list[Mapping[str, int]] = []
        for sizes in initial_sizes(self.original, plan, self._dims, lambda: not found):
            for seed in seeds:
                trial = self._trial(session, plan, seed, sizes, repeat=self._work < MUCH)
                if trial is None:
                    continue
                self._work = max(self._work, self._cost.of(trial.feeds))
                found.append(sizes)
                yield trial
                if self._work > VERY_MUCH:
                    return
            seeds = range(seeds.stop, seeds.stop + 1) if found else seeds
        if found:
            return
        for sizes in plan.fallback_sets(self._dims):
            trials = [self._trial(session, plan, seed, sizes) for seed in seeds]
            if any(trials):
                yield from (trial for trial in trials if trial)
                return

    def _trial(
        self, session: ModelSession, plan: InputGenerator, seed: int, sizes: Mapping[str, int], *, repeat: bool = True
    ) -> Trial | None:
        """Run the original on one set of inputs; on tamer values if it refuses the usual ones or gives only NaN."""
        answer: Trial | None = None
        for values in (ValueKind.USUAL, ValueKind.UNSIGNED, ValueKind.BENIGN):
            if values is ValueKind.UNSIGNED and not plan.signed:
                continue
            feeds = plan.generate(seed, sizes, values)
            try:
                outputs = session.run(feeds)
                again = session.run(feeds) if repeat else outputs
            except SessionError as refused:
                self._refusal = self._refusal or refused.message
                continue
            answer = Trial(feeds, outputs, non_repeating_outputs(outputs, again), sizes, kind=values)
            if not all_nan(outputs):
                break
        return answer

    def _own_trials(self, session: ModelSession, plan: InputGenerator, first: Trial) -> Iterator[Trial]:
        """Yield a trial with gaps in masks and other indices, at larger sizes where the original accepts them."""
        if not (first.sizes or plan.is_affected_by(ValueKind.MASK_GAPS) or plan.is_affected_by(ValueKind.BACKWARDS)):
            return
        larger = {name: size if name in self._dims else size + _MORE for name, size in first.sizes.items()}
        for sizes in (larger, first.sizes):
            feeds = plan.generate((self._seed + _OWN_SEED) * _OWN_TURNS, sizes, ValueKind.MASK_GAPS)
            try:
                outputs = session.run(feeds)
            except SessionError:
                continue  # these sizes do not fit this model
            if not all_nan(outputs):
                yield Trial(feeds, outputs, first.unstable, sizes, kind=ValueKind.MASK_GAPS)
                return

    def _fraction_trials(self, session: ModelSession, plan: InputGenerator, first: Trial) -> Iterator[Trial]:
        """Yield trials on fractions, where floats become indices, counts or booleans."""
        sets = [plan.generate(self._seed * TURNS + turn, first.sizes, ValueKind.FRACTIONS) for turn in FINITE]
        for feeds in sets:  # halves are ties: noise is measured between them
            with suppress(SessionError):
                outputs = session.run(feeds)
                yield Trial(feeds, outputs, first.unstable, first.sizes, kind=ValueKind.FRACTIONS, noise_feeds=sets[:1])

    def _long_trials(self, session: ModelSession, plan: InputGenerator, first: Trial) -> Iterator[Trial]:
        """Yield a trial with long sequences, if the original accepts them and its work is at most `_LONG`."""
        sets = plan.long_sets(self._dims) if first.sizes else []
        for sizes in [*sets, *(ConsistentSizes(self.original, self._dims).of(sets) if sets else ())]:
            feeds = plan.generate(self._seed + _OWN_SEED, sizes) if plan.has_room(sizes) else None
            if feeds is None or self._cost.of(feeds) > _LONG:
                continue
            try:
                outputs = session.run(feeds)
            except SessionError:
                continue
            if not all_nan(outputs):
                yield Trial(feeds, outputs, first.unstable, sizes)
                return

    def _threshold_trials(
        self, session: ModelSession, plan: InputGenerator, wider: Trial, distinguishing: DistinguishingInputs
    ) -> Iterator[Trial]:
        """Yield trials on numbers at thresholds of a model."""
        turns = _MANY_TURNS if self._cost.of(wider.feeds) <= _LITTLE else _FEW_TURNS
        for feeds in distinguishing.at_thresholds(plan, wider.feeds, self._seed, turns) if self._work <= MUCH else ():
            with suppress(SessionError):
                outputs = session.run(feeds)
                noise_feeds = [away_from_ties(plan, feeds, self._seed + turn) for turn in range(_CALM)]
                yield Trial(feeds, outputs, wider.unstable, wider.sizes, words=MET, wide=True, noise_feeds=noise_feeds)

    def _row_trials(
        self, session: ModelSession, plan: InputGenerator, first: Trial, distinguishing: DistinguishingInputs
    ) -> Iterator[Trial]:
        """Yield trials on all rows of tables that the other model does not have."""
        if not distinguishing.tables:
            return
        sets = list(distinguishing.visiting_rows(plan, first.sizes, self._seed))
        looked_up = bool(sets) and self._is_cheap(sets, first)
        for feeds in sets if looked_up else ():
            try:
                outputs = session.run(feeds)
            except SessionError:
                looked_up = False
                break
            yield Trial(feeds, outputs, first.unstable, {}, words=LOOKED_UP)
        reached = set[int]()
        for sizes in distinguishing.longest(plan, first.sizes):
            feeds = plan.generate(self._seed + _OWN_SEED, sizes)
            with suppress(SessionError):
                if self._is_cheap([feeds], first):
                    outputs = session.run(feeds)
                    yield Trial(feeds, outputs, first.unstable, sizes)
                    reached.update(sizes.values())
        self.unvisited_tables = distinguishing.unvisited_tables(plan, looked_up, reached)

    def _sized_trials(
        self, session: ModelSession, plan: InputGenerator, first: Trial, distinguishing: DistinguishingInputs
    ) -> Iterator[Trial]:
        """Yield trials at sizes that a model branches on, where they are cheap."""
        for sizes in distinguishing.at_sizes(plan, first.sizes, self._dims):
            feeds = plan.generate(self._seed + _OWN_SEED, sizes)
            with suppress(SessionError):
                if self._cost.of(feeds) <= _LONG:
                    yield Trial(feeds, session.run(feeds), first.unstable, sizes)

    def _edge_trials(self, session: ModelSession, plan: InputGenerator, first: Trial, wider: Trial) -> Iterator[Trial]:
        """Yield a trial with rows of zeros, and trials on which a difference does not fail the check."""
        if self._work > MUCH:
            return
        lesser = with_small_rows(plan, wider.feeds, self._seed)
        if lesser is not None:
            with suppress(SessionError):
                outputs = session.run(lesser)
                if has_informative_outputs(outputs, wider.outputs, entirely=False):
                    yield Trial(lesser, outputs, wider.unstable, wider.sizes, words=LESSER, wide=True)
        for words, feeds in edge_case_inputs(plan, self._theirs, first.sizes, self._seed, few=self._work > _MODERATE):
            with suppress(SessionError):
                yield Trial(feeds, session.run(feeds), first.unstable, first.sizes, words=words, apart=True)

    def _wider(self, session: ModelSession, plan: InputGenerator, first: Trial) -> Trial:
        """The same trial with more batches, so that numbers reach each column, if that is cheap."""
        batches = [key for key, dim in plan.free.items() if key not in self._dims and dim.kind() == "batch"]
        sizes = {**first.sizes, **{key: _BATCHES for key in batches if key in first.sizes}}
        shapes = {want.name: np.broadcast_to(np.empty((), want.dtype), want.shape(sizes)) for want in plan.wants}
        if sizes != first.sizes and self._cost.of(shapes) <= _MODERATE:
            feeds = plan.generate(self._seed, sizes, first.kind)
            with suppress(SessionError):
                return replace(first, feeds=feeds, outputs=session.run(feeds), sizes=sizes)
        return first

    def _is_cheap(self, sets: Sequence[Mapping[str, np.ndarray]], first: Trial) -> bool:
        """Whether runs on these inputs take at most `_LONG` work, and their outputs fit in memory."""
        held = sum(array.nbytes for array in first.outputs.values())
        part = max(sum(array.nbytes for array in first.feeds.values()), 1)
        given = sum(array.nbytes for feeds in sets for array in feeds.values())
        return sum(map(self._cost.of, sets)) <= _LONG and held * given <= _MOST_HELD * part

    def _wide_trials(self, session: ModelSession, plan: InputGenerator, made: Sequence[Trial]) -> Iterator[Trial]:
        """Yield trials on wide-ranging values at the first sizes, in turn without and with a few large ones.

        Values that the original does not accept are left out, and `excluded_because` says why.
        """
        first, unstable = made[0], sorted({name for trial in made for name in trial.unstable})
        for turn in range(1 if self._work > MUCH else plan.seeds()):
            why = ""
            for values in _WIDE_TURNS[turn % len(_WIDE_TURNS)]:
                feeds = plan.generate(self._seed + turn, first.sizes, values)
                try:
                    outputs = session.run(feeds)
                except SessionError as refused:
                    why = f"the original refuses it ({refused.message.rstrip('.')})"
                    continue
                if has_informative_outputs(outputs, first.outputs, entirely=values is ValueKind.LARGE):
                    yield Trial(feeds, outputs, unstable, first.sizes, kind=values, wide=True)
                    break
                why = "the original answers it with NaN or infinity"
            else:
                self.excluded_because = why
