"""Beyond the size that a file fixed: what the edited model answers there, held against runs of the original."""

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import ModelProto

from surgeon.editing.draft import ModelClaim, ModelDraft
from surgeon.editing.freed import Freed
from surgeon.file.save import Written
from surgeon.inputs.inputs import InputPlan, InputsUnknown
from surgeon.listing import first_of
from surgeon.models.options import CheckOptions
from surgeon.running.away import Away
from surgeon.running.runtime import SessionError
from surgeon.running.whole import Whole
from surgeon.verdicts.compare import Comparison, compare
from surgeon.verdicts.result import Outcome

Arrays = dict[str, np.ndarray]
SIZES = (2, 7)  # at which a batch is held against as many runs of the original
NAMED = 3


def beyond(
    draft: ModelDraft,
    original: Written,
    edited: Written,
    away: Away,
    tolerances: tuple[float | None, float | None],
    options: CheckOptions,
) -> tuple[Outcome, str, list[Comparison]]:
    """Run the edited model at sizes that the original cannot take; say what is known of it there.

    Where all outputs are made place by place, runs of the original laid end to end are what it has to answer.
    """
    outcome, reasons, compared = Outcome.PROVED, list[str](), list[Comparison]()
    for freed in draft.claim.freed:
        found, reason, more = _Beyond(draft.source.skeleton, draft.claim, freed, options, tolerances).run(
            original, edited, away
        )
        reasons.append(reason)
        compared += more
        if outcome is Outcome.PROVED or found is Outcome.FAILED:
            outcome = found
    return outcome, "; ".join(reasons), compared


class _Beyond:
    """One freed size."""

    def __init__(
        self,
        before: ModelProto,
        claim: ModelClaim,
        freed: Freed,
        options: CheckOptions,
        tolerances: tuple[float | None, float | None],
    ) -> None:
        self.before, self.claim, self.freed, self.options = before, claim, freed, options
        self.rtol, self.atol = tolerances
        self.compared: list[Comparison] = []
        self.ran: list[int] = []

    def run(self, original: Written, edited: Written, away: Away) -> tuple[Outcome, str, list[Comparison]]:
        """The outcome, a sentence without a full stop, and what was compared."""
        freed = self.freed
        sizes = SIZES if freed.answers else tuple(dict.fromkeys((2 * freed.old, freed.old + 1, 3 * freed.old)))[:2]
        try:
            plan = InputPlan(self.before)
        except InputsUnknown as unknown:
            return Outcome.UNPROVED, f"inputs cannot be made: {unknown.reason}", []
        try:
            with away.open(original) as session:
                slices, answers = self._slices(session, plan, -(-max(sizes) // freed.old))
        except SessionError as refused:
            return Outcome.UNPROVED, f"the original does not run: {refused.line}", []
        refusal = ""
        try:
            with away.open(edited) as session:
                for size in sizes:
                    if size == freed.old:
                        continue
                    try:
                        answer = session.run(self._feeds(slices, size, session.inputs))
                    except SessionError as refused:
                        refusal = refused.line
                        if freed.answers:
                            break
                        continue
                    self.ran.append(size)
                    self._compare(answer, answers, size)
        except SessionError as refused:
            refusal = refused.line
        return self._outcome(refusal)

    def _slices(self, session: Whole, plan: InputPlan, count: int) -> tuple[list[Arrays], list[Arrays]]:
        """Inputs of so many runs, alike in all that is not freed, and what the original answers to each."""
        sizes = plan.size_sets({name: size for name, size in self.options.dims.items() if name in plan.free})[0]
        made = [plan.make(self.options.seed + number, sizes) for number in range(count)]
        slices = [{name: (feeds if name in self.freed.feeds else made[0])[name] for name in feeds} for feeds in made]
        return slices, [session.run(feeds) for feeds in slices]

    def _feeds(self, slices: Sequence[Arrays], size: int, inputs: Sequence[str]) -> Arrays:
        """What the edited model is fed with at a size."""
        found: Arrays = {}
        for name in inputs:
            source = self.claim.original(name)
            axis = self.freed.feeds.get(source)
            found[name] = slices[0][source] if axis is None else self._laid([x[source] for x in slices], axis, size)
        return found

    def _laid(self, parts: Sequence[np.ndarray], axis: int, size: int) -> np.ndarray:
        """Parts end to end, as many places of them as wanted."""
        return np.concatenate(parts, axis).take(range(size), axis)

    def _compare(self, answer: Mapping[str, np.ndarray], answers: Sequence[Arrays], size: int) -> None:
        for name, array in answer.items():
            source = self.claim.original(name)
            if source not in self.freed.answers or source not in answers[0]:
                continue
            axis = self.freed.answers[source]
            parts = [one[source] for one in answers]
            wanted = parts[0] if axis is None else self._laid(parts, axis, size)
            self.compared.append(compare(name, wanted, array, self.rtol, self.atol))

    def _outcome(self, refusal: str) -> tuple[Outcome, str, list[Comparison]]:
        freed = self.freed
        wrong = next((found for found in self.compared if not found.error.ok), None)
        at = f"at {freed.name}={' and '.join(map(str, self.ran))}"
        if wrong is not None:
            told = f"with {freed.name} free, '{wrong.error.name}' {wrong.why} {at}"
            return Outcome.FAILED, f"{told}, held against as many runs of the original", self.compared
        if not self.ran or (refusal and freed.answers):
            return Outcome.FAILED, f"the edited model runs at no other {freed.name} than {freed.old}: {refusal}", []
        nothing = f"beyond {freed.old} there is nothing to compare with"
        if not freed.answers:
            return Outcome.UNPROVED, f"{at} the edited model runs, but {nothing}", []
        proved = f"{at} it answers as the original does to each part by itself"
        if freed.mixed:
            names = first_of([f"'{name}'" for name in freed.mixed], NAMED)
            return Outcome.UNPROVED, f"{proved}, but {names} sees more than one at once, and {nothing}", self.compared
        return Outcome.PROVED, proved, self.compared
