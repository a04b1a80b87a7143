"""Trials on generated inputs: those cases of strategies that the original accepts.

A count of work decides what runs, not a clock: a model sees the same inputs on any machine.
"""

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping

from surgeon.proof.model.model_region import LARGER_WORK, ModelRegion
from surgeon.proof.model.trial import USUAL, Trial, TrialNotes
from surgeon.proof.model.usable_answers import all_nan, has_informative_outputs, non_repeating_outputs
from surgeon.proof.strategies.models import MODEL_STRATEGIES
from surgeon.proof.strategies.strategy import STRATEGIES, InputCase, cases, next_proposed
from surgeon.proof.strategies.values import SAMPLES
from surgeon.runtime.inputs import role_fills as roles
from surgeon.runtime.inputs.input_generator import InputGenerator
from surgeon.runtime.sessions.model_session import ModelSession
from surgeon.runtime.sessions.ort_session import SessionError

MUCH = 1 << 36
"""Work of a run, as `ModelCost` counts it, from which it is not repeated: about a minute on one core."""
MOST = 1 << 39
"""Work of all runs, after the first: a model of seven billion weights takes eight short ones."""
BUDGET = 4 * LARGER_WORK
"""Work of all runs from which only the first of each strategy is taken: three strategies take a run at larger sizes."""


class TrialGenerator:
    """Runs an open original on the cases of strategies, one after the other.

    notes: on inputs that the original does not accept.
    """

    def __init__(
        self, session: ModelSession, plan: InputGenerator, region: ModelRegion, *, seed: int, notes: TrialNotes
    ) -> None:
        self._session, self._plan, self._region = session, plan, region
        self._seed, self._notes = seed, notes
        self._accepted: Trial | None = None  # the first
        self._before = Counter[str]()  # cases of each strategy
        self._usual = roles.USUAL
        self._excluded = ""

    def trials(self, sizes: Iterator[Mapping[str, int]], fallback: Iterator[Mapping[str, int]]) -> Iterator[Trial]:
        """Yield the trials that the original accepts, at the first of these sizes that it accepts and at further ones.

        fallback: further sizes, if it accepts none of them.
        """
        first = self._first(sizes) or self._first(fallback)
        if first is None:
            return
        self._accepted = first
        yield first
        region, spent = self._region, 0
        region.start(first.feeds, first.outputs, first.sizes)
        region.others = list(sizes)
        # Without another model nothing is known of what right ones may differ on.
        chosen = [item for item in MODEL_STRATEGIES if region.pair or not item.informs]
        proposed, is_taken = cases(region, chosen, BUDGET), None
        while (case := next_proposed(proposed, is_taken)) is not None:
            spent += case.dims.work
            if spent + region.first.work > MOST:
                break
            trial = self._run(case)
            is_taken = trial is not None
            if trial is not None:
                yield trial
        self._notes.excluded_because = self._excluded

    def _first(self, sets: Iterator[Mapping[str, int]]) -> Trial | None:
        """A trial on usual inputs at the first sizes that the original accepts; on calmer ones if it refuses these."""
        for sizes in sets:
            case, calm = InputCase(self._region.at(sizes), {}, USUAL), None
            for self._usual in (roles.USUAL, roles.NOT_NEGATIVE, roles.CALM):
                for _ in range(SAMPLES if self._usual is roles.USUAL else 1):
                    trial = self._run(case)
                    if trial is not None and not all_nan(trial.outputs):
                        return trial
                    calm = trial or calm
            if calm is not None:
                return calm
        return None

    def _run(self, case: InputCase) -> Trial | None:
        """Run the original on a case; None if it refuses the inputs or gives nothing to compare."""
        number, fills = self._before[case.strategy], case.fills.values()
        self._before[case.strategy] += 1
        drawn_by = zlib.crc32(case.strategy.encode()), number
        sizes = case.dims.by_symbol
        feeds = self._plan.generate(self._seed, sizes, case.fills, self._usual, drawn_by=drawn_by)
        is_repeated = not case.fills and case.dims.work <= MUCH
        is_wide, is_excluding = any(fill.may_overflow for fill in fills), any("wide" in fill.kinds for fill in fills)
        try:
            outputs = self._session.run(feeds)
            again = self._session.run(feeds) if is_repeated else outputs
        except SessionError as refused:
            self._notes.refusal = self._notes.refusal or refused.message
            if is_excluding:
                self._excluded = f"the original rejects it ({refused.message.rstrip('.')})"
            return None
        unstable, informs = non_repeating_outputs(outputs, again), False
        if self._accepted is not None:
            unstable, informs = sorted({*unstable, *self._accepted.unstable}), STRATEGIES[case.strategy].informs
            if is_wide and not has_informative_outputs(outputs, self._accepted.outputs):
                self._excluded = "the original returns NaN or infinity" if is_excluding else self._excluded
                return None
            if not informs and all_nan(outputs):
                return None
        self._excluded = "" if is_excluding else self._excluded
        return Trial(
            feeds,
            outputs,
            unstable=unstable,
            sizes=sizes,
            strategy=case.strategy,
            wide=is_wide,
            decides=any(fill.decides for fill in fills),
            informational=informs,
        )
