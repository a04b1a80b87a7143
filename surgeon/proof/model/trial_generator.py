"""Trials on generated inputs: kinds of values and sizes, as far as the original accepts them.

Several seeds, several sizes of dynamic dims, values of wide range, and inputs at which two models are most likely to
differ.  A count of work decides what runs again, not a clock: a model sees the same inputs on any machine.
"""

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from onnx import ModelProto

from surgeon.proof.model.distinguishing_inputs import LOOKED_UP, MET, DistinguishingInputs, away_from_ties
from surgeon.proof.model.edge_case_inputs import LESSER, edge_case_inputs, with_small_rows
from surgeon.proof.model.model_cost import ModelCost
from surgeon.proof.model.trial import Trial, TrialNotes
from surgeon.proof.model.usable_answers import all_nan, has_informative_outputs, non_repeating_outputs
from surgeon.runtime.inputs.consistent_sizes import ConsistentSizes, initial_sizes
from surgeon.runtime.inputs.fractional_values import FINITE, TURNS
from surgeon.runtime.inputs.input_generator import InputGenerator, ValueKind
from surgeon.runtime.sessions.model_session import ModelSession
from surgeon.runtime.sessions.ort_session import SessionError

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
_MAX_HELD_BYTES = 1 << 28  # bytes of outputs, about, for all rows of tables
# Kinds of wide-ranging values in turn, each with substitutes where the original gives NaN or infinity.
_WIDE_TURNS = ((ValueKind.WIDE, ValueKind.WIDE_POSITIVE), (ValueKind.LARGE, ValueKind.WIDE, ValueKind.WIDE_POSITIVE))


class TrialGenerator:
    """Runs an open original on generated inputs, one trial after the other.

    notes: on inputs that the original does not accept.  theirs: inputs of the other model, if known.
    """

    def __init__(
        self,
        session: ModelSession,
        original: pathlib.Path | ModelProto,
        plan: InputGenerator,
        *,
        seed: int,
        dims: Mapping[str, int],
        theirs: InputGenerator | None,
        notes: TrialNotes,
    ) -> None:
        self._session, self._original, self._plan = session, original, plan
        self._seed, self._dims, self._theirs, self._notes = seed, dims, theirs, notes
        self._cost = ModelCost(original)
        self._work = 0  # of the largest run so far

    def trials(self, distinguishing: DistinguishingInputs | None) -> Iterator[Trial]:
        """Yield the trials that the original accepts; last those on distinguishing inputs."""
        made = list(self._usual_trials())
        yield from made
        if made and self._work <= MUCH:
            yield from self._own_trials(made[0])
            yield from self._long_trials(made[0])
        if made and self._plan.is_affected_by(ValueKind.FRACTIONS):
            yield from self._fraction_trials(made[0])
        if made and self._plan.widens:
            yield from self._wide_trials(made)
        if made and distinguishing is not None:
            wider = self._wider(made[0])
            met = list(self._threshold_trials(wider, distinguishing))
            has_masks = any(want.kind == "mask" for want in self._plan.wants)
            yield from met or ([wider] if has_masks and wider is not made[0] else [])  # for masks of all lengths
            yield from self._sized_trials(made[0], distinguishing)
            yield from self._row_trials(made[0], distinguishing)
            yield from self._edge_trials(made[0], wider)

    def _usual_trials(self) -> Iterator[Trial]:
        """Yield the trials that the original accepts: several seeds at the first sizes, one at each of the others.

        Where it refuses the usual sizes, consistent sizes come next.
        """
        seeds = range(self._seed, self._seed + self._plan.seeds())
        found: list[Mapping[str, int]] = []
        for sizes in initial_sizes(self._original, self._plan, self._dims, lambda: not found):
            for seed in seeds:
                trial = self._trial(seed, sizes, repeat=self._work < MUCH)
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
        for sizes in self._plan.fallback_sets(self._dims):
            trials = [self._trial(seed, sizes) for seed in seeds]
            if any(trials):
                yield from (trial for trial in trials if trial)
                return

    def _trial(self, seed: int, sizes: Mapping[str, int], *, repeat: bool = True) -> Trial | None:
        """Run the original on one set of inputs; on tamer values if it refuses the usual ones or gives only NaN."""
        answer: Trial | None = None
        for values in (ValueKind.USUAL, ValueKind.UNSIGNED, ValueKind.BENIGN):
            if values is ValueKind.UNSIGNED and not self._plan.signed:
                continue
            feeds = self._plan.generate(seed, sizes, values)
            try:
                outputs = self._session.run(feeds)
                again = self._session.run(feeds) if repeat else outputs
            except SessionError as refused:
                self._notes.refusal = self._notes.refusal or refused.message
                continue
            answer = Trial(feeds, outputs, non_repeating_outputs(outputs, again), sizes, kind=values)
            if not all_nan(outputs):
                break
        return answer

    def _own_trials(self, first: Trial) -> Iterator[Trial]:
        """Yield a trial with gaps in masks and other indices, at larger sizes where the original accepts them."""
        if not (
            first.sizes
            or self._plan.is_affected_by(ValueKind.MASK_GAPS)
            or self._plan.is_affected_by(ValueKind.BACKWARDS)
        ):
            return
        larger = {name: size if name in self._dims else size + _MORE for name, size in first.sizes.items()}
        for sizes in (larger, first.sizes):
            feeds = self._plan.generate((self._seed + _OWN_SEED) * _OWN_TURNS, sizes, ValueKind.MASK_GAPS)
            try:
                outputs = self._session.run(feeds)
            except SessionError:
                continue  # these sizes do not fit this model
            if not all_nan(outputs):
                yield Trial(feeds, outputs, first.unstable, sizes, kind=ValueKind.MASK_GAPS)
                return

    def _fraction_trials(self, first: Trial) -> Iterator[Trial]:
        """Yield trials on fractions, where floats become indices, counts or booleans."""
        sets = [self._plan.generate(self._seed * TURNS + turn, first.sizes, ValueKind.FRACTIONS) for turn in FINITE]
        for feeds in sets:  # halves are ties: noise is measured between them
            with suppress(SessionError):
                outputs = self._session.run(feeds)
                yield Trial(feeds, outputs, first.unstable, first.sizes, kind=ValueKind.FRACTIONS, noise_feeds=sets[:1])

    def _long_trials(self, first: Trial) -> Iterator[Trial]:
        """Yield a trial with long sequences, if the original accepts them and its work is at most `_LONG`."""
        sets = self._plan.long_sets(self._dims) if first.sizes else []
        for sizes in [*sets, *(ConsistentSizes(self._original, self._dims).of(sets) if sets else ())]:
            feeds = self._plan.generate(self._seed + _OWN_SEED, sizes) if self._plan.has_room(sizes) else None
            if feeds is None or self._cost.of(feeds) > _LONG:
                continue
            try:
                outputs = self._session.run(feeds)
            except SessionError:
                continue
            if not all_nan(outputs):
                yield Trial(feeds, outputs, first.unstable, sizes)
                return

    def _threshold_trials(self, wider: Trial, distinguishing: DistinguishingInputs) -> Iterator[Trial]:
        """Yield trials on numbers at thresholds of a model."""
        turns = _MANY_TURNS if self._cost.of(wider.feeds) <= _LITTLE else _FEW_TURNS
        for feeds in (
            distinguishing.at_thresholds(self._plan, wider.feeds, self._seed, turns) if self._work <= MUCH else ()
        ):
            with suppress(SessionError):
                outputs = self._session.run(feeds)
                noise_feeds = [away_from_ties(self._plan, feeds, self._seed + turn) for turn in range(_CALM)]
                yield Trial(feeds, outputs, wider.unstable, wider.sizes, words=MET, wide=True, noise_feeds=noise_feeds)

    def _row_trials(self, first: Trial, distinguishing: DistinguishingInputs) -> Iterator[Trial]:
        """Yield trials on all rows of tables that the other model does not have."""
        if not distinguishing.tables:
            return
        sets = list(distinguishing.visiting_rows(self._plan, first.sizes, self._seed))
        looked_up = bool(sets) and self._is_cheap(sets, first)
        for feeds in sets if looked_up else ():
            try:
                outputs = self._session.run(feeds)
            except SessionError:
                looked_up = False
                break
            yield Trial(feeds, outputs, first.unstable, {}, words=LOOKED_UP)
        reached = set[int]()
        for sizes in distinguishing.longest(self._plan, first.sizes):
            feeds = self._plan.generate(self._seed + _OWN_SEED, sizes)
            with suppress(SessionError):
                if self._is_cheap([feeds], first):
                    outputs = self._session.run(feeds)
                    yield Trial(feeds, outputs, first.unstable, sizes)
                    reached.update(sizes.values())
        self._notes.unvisited_tables = distinguishing.unvisited_tables(self._plan, looked_up, reached)

    def _sized_trials(self, first: Trial, distinguishing: DistinguishingInputs) -> Iterator[Trial]:
        """Yield trials at sizes that a model branches on, where they are cheap."""
        for sizes in distinguishing.at_sizes(self._plan, first.sizes, self._dims):
            feeds = self._plan.generate(self._seed + _OWN_SEED, sizes)
            with suppress(SessionError):
                if self._cost.of(feeds) <= _LONG:
                    yield Trial(feeds, self._session.run(feeds), first.unstable, sizes)

    def _edge_trials(self, first: Trial, wider: Trial) -> Iterator[Trial]:
        """Yield a trial with rows of zeros, and trials on which a difference does not fail the check."""
        if self._work > MUCH:
            return
        lesser = with_small_rows(self._plan, wider.feeds, self._seed)
        if lesser is not None:
            with suppress(SessionError):
                outputs = self._session.run(lesser)
                if has_informative_outputs(outputs, wider.outputs, entirely=False):
                    yield Trial(lesser, outputs, wider.unstable, wider.sizes, words=LESSER, wide=True)
        for words, feeds in edge_case_inputs(
            self._plan, self._theirs, first.sizes, self._seed, few=self._work > _MODERATE
        ):
            with suppress(SessionError):
                yield Trial(
                    feeds, self._session.run(feeds), first.unstable, first.sizes, words=words, informational=True
                )

    def _wider(self, first: Trial) -> Trial:
        """The same trial with more batches, so that numbers reach each column, if that is cheap."""
        batches = [key for key, dim in self._plan.free.items() if key not in self._dims and dim.kind() == "batch"]
        sizes = {**first.sizes, **{key: _BATCHES for key in batches if key in first.sizes}}
        shapes = {want.name: np.broadcast_to(np.empty((), want.dtype), want.shape(sizes)) for want in self._plan.wants}
        if sizes != first.sizes and self._cost.of(shapes) <= _MODERATE:
            feeds = self._plan.generate(self._seed, sizes, first.kind)
            with suppress(SessionError):
                return replace(first, feeds=feeds, outputs=self._session.run(feeds), sizes=sizes)
        return first

    def _is_cheap(self, sets: Sequence[Mapping[str, np.ndarray]], first: Trial) -> bool:
        """Whether runs on these inputs take at most `_LONG` work, and their outputs fit in memory."""
        held = sum(array.nbytes for array in first.outputs.values())
        part = max(sum(array.nbytes for array in first.feeds.values()), 1)
        given = sum(array.nbytes for feeds in sets for array in feeds.values())
        return sum(map(self._cost.of, sets)) <= _LONG and held * given <= _MAX_HELD_BYTES * part

    def _wide_trials(self, made: Sequence[Trial]) -> Iterator[Trial]:
        """Yield trials on wide-ranging values at the first sizes, in turn without and with a few large ones.

        Values that the original does not accept are left out, and `TrialNotes.excluded_because` says why.
        """
        first, unstable = made[0], sorted({name for trial in made for name in trial.unstable})
        for turn in range(1 if self._work > MUCH else self._plan.seeds()):
            why = ""
            for values in _WIDE_TURNS[turn % len(_WIDE_TURNS)]:
                feeds = self._plan.generate(self._seed + turn, first.sizes, values)
                try:
                    outputs = self._session.run(feeds)
                except SessionError as refused:
                    why = f"the original refuses it ({refused.message.rstrip('.')})"
                    continue
                if has_informative_outputs(outputs, first.outputs, entirely=values is ValueKind.LARGE):
                    yield Trial(feeds, outputs, unstable, first.sizes, kind=values, wide=True)
                    break
                why = "the original answers it with NaN or infinity"
            else:
                self._notes.excluded_because = why
