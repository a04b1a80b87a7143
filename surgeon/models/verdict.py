"""What comparing all trials found, and the outcome that it adds up to."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from surgeon.models.noise import CEILING
from surgeon.models.trials import Trial, Trials
from surgeon.verdicts.compare import Comparison, OutputError, Spread, compare, dtype_name, where_finite
from surgeon.verdicts.judge import ALLOWANCE
from surgeon.verdicts.result import Outcome


@dataclass(slots=True)
class Verdict:
    """One model held against the trials of the original: `add` each answer, then ask for `outcome`.

    hint: of a likely cause where the original does not repeat itself, as it goes into the sentence.
    """

    trials: Trials
    rtol: float | None
    atol: float | None
    hint: str = ""
    made: list[tuple[Trial, Comparison]] = field(default_factory=list)
    dropped: set[int] = field(default_factory=set)  # id() of the trials that tell nothing
    left_out: str = ""

    def __post_init__(self) -> None:
        self.left_out = self.trials.left_out

    @property
    def used(self) -> list[Trial]:
        """The trials that count."""
        return [trial for trial in self.trials.made if id(trial) not in self.dropped]

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
    def telling(self) -> Trial:
        """The trial that shows most: of the worst failure that `outcome` did not excuse, else the first one."""
        failed = self._failed()
        return max(failed, key=lambda pair: pair[1].error.severity)[0] if failed else self.used[0]

    def add(self, trial: Trial, answer: Mapping[str, np.ndarray]) -> None:
        """Compare what the model answered to one trial with what the original did."""
        for name, array in trial.outputs.items():
            if name in trial.unstable:
                continue
            if name not in answer:
                error = OutputError(name, dtype_name(array), np.inf, np.inf, 0.0, 0.0, False)
                self.made.append((trial, Comparison(error, "is missing")))
                continue
            other = where_finite(array, answer[name]) if trial.wide else answer[name]
            self.made.append((trial, compare(name, array, other, self.rtol, self.atol)))

    def outcome(self) -> tuple[Outcome, str]:
        """Return the outcome and its reason."""
        failure = self._on_failure() if self._failed() else None
        return failure or self._on_success()

    def _failed(self) -> list[tuple[Trial, Comparison]]:
        """All comparisons that went past their tolerance."""
        return [(trial, comparison) for trial, comparison in self.made if not comparison.error.ok]

    def _excuse(self, trial: Trial, comparison: Comparison, noise: float) -> None:
        """Accept an error that the original's own noise explains."""
        error = comparison.error
        excused = Comparison(replace(error, allowed=error.allowed + noise, ok=True), "")
        place = next(place for place, (_, made) in enumerate(self.made) if made is comparison)
        self.made[place] = (trial, excused)

    def _drop(self, trial: Trial) -> None:
        """Forget all comparisons of one trial."""
        self.dropped.add(id(trial))
        self.made = [(other, comparison) for other, comparison in self.made if other is not trial]

    def _on_failure(self) -> tuple[Outcome, str] | None:
        """Failed, unless the original itself moves as far for no reason; None if the noise explains all of it."""
        failed = self._failed()
        trials = list({id(trial): trial for trial, _ in failed}.values())
        by_trial = {id(trial): moved for trial, moved in zip(trials, self.trials.noise(trials), strict=True)}
        real: list[tuple[Trial, Comparison]] = []
        blurred = ""
        chaotic: dict[int, Trial] = {}
        for trial, comparison in failed:
            error = comparison.error
            moved = ALLOWANCE * by_trial[id(trial)].get(error.name, 0.0)
            if not error.max_abs <= error.allowed + moved:
                real.append((trial, comparison))
            elif moved > CEILING * error.scale + error.allowed and trial.wide:
                chaotic[id(trial)] = trial
                self.left_out = f"output '{error.name}' of the original moves as far when rounding changes"
            elif moved > CEILING * error.scale + error.allowed:
                blurred = (
                    f"Output '{error.name}' {comparison.why}, but the original's own answer moves as far "
                    f"({moved / ALLOWANCE:.3g}) when rounding changes."
                )
            else:
                self._excuse(trial, comparison, moved)
        for trial in chaotic.values():
            self._drop(trial)
        if real:
            trial, worst = max(real, key=lambda pair: pair[1].error.severity)
            where = f" on the inputs of {trial.source}" if trial.source else ""
            return Outcome.FAILED, f"Output '{worst.error.name}' {worst.why}{where}."
        return (Outcome.UNPROVED, blurred) if blurred else None

    def _on_success(self) -> tuple[Outcome, str]:
        """Proved, unless what was compared could not have told a difference."""
        used = self.used
        unstable = sorted({name for trial in used for name in trial.unstable})
        if unstable:
            return Outcome.UNPROVED, f"Two runs of the original differ in output '{unstable[0]}'{self.hint}."
        if self.trials.refused:
            return Outcome.UNPROVED, self.trials.refused
        has_inputs = bool(used[0].feeds)
        empty: dict[str, str] = {}
        # What a list holds counts, not that it always has the same length.
        names = [name for name in used[0].outputs if not name.startswith(("len(", "keys("))]
        worst = self.worst
        for name in names:
            spread = Spread()
            for trial in used:
                if name in trial.outputs:
                    spread.add(trial.outputs[name], worst[name].error.allowed)
            why = spread.emptiness()
            if why and (has_inputs or not spread.numbers):
                empty[name] = why
        if len(empty) == len(names):
            name, why = next(iter(empty.items()))
            return Outcome.UNPROVED, f"No output tells anything: '{name}' {why} in the original."
        notes = []
        if empty:
            told = ", ".join(f"'{name}' {why}" for name, why in list(empty.items())[:3])
            notes.append(f"Not every output tells something: {told}.")
        if self.left_out:
            notes.append(f"A set of inputs of wide range is left out: {self.left_out}.")
        return Outcome.PROVED, " ".join(notes)
