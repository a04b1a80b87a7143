"""Beyond the size that a file fixed: the answers of the edited model there, compared with runs of the original."""

from collections.abc import Sequence

from surgeon.file.save import OutputModel
from surgeon.pipeline.editing.batch_samples import SampleRun, Samples, batch_sizes
from surgeon.pipeline.editing.claim import DynamicDimsClaim
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.proof.check_options import CheckOptions
from surgeon.proof.check_result import Outcome
from surgeon.runtime.inputs.input_generator import InputsUnknown
from surgeon.runtime.numerics.array_comparison import Comparison
from surgeon.runtime.sessions.isolated_session import IsolatedRuntime
from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.text import join_first

NAMED = 3


def check_beyond_fixed_size(
    draft: ModelDraft,
    original: OutputModel,
    edited: OutputModel,
    away: IsolatedRuntime,
    tolerances: tuple[float | None, float | None],
    options: CheckOptions,
) -> tuple[Outcome, str, list[Comparison]]:
    """Run the edited model at sizes that the original does not take; say what is known of it there.

    Where outputs keep samples independent, each sample of the result has to equal the original's answer to it.
    """
    outcome, reasons, compared = Outcome.PROVED, list[str](), list[Comparison]()
    for freed in draft.claim.freed:
        try:
            samples = Samples(
                freed,
                draft.source.skeleton,
                original,
                options=options,
                away=away,
                tolerances=tolerances,
                names=draft.claim.tensors,
            )
        except InputsUnknown as unknown:
            found, reason, more = Outcome.UNPROVED, f"inputs cannot be made: {unknown.reason}", list[Comparison]()
        except SessionError as refused:
            found, reason, more = Outcome.UNPROVED, f"the original does not run: {refused.message}", list[Comparison]()
        else:
            found, reason, more = _judged(freed, samples, edited)
        reasons.append(reason)
        compared += more
        if outcome is Outcome.PROVED or found is Outcome.FAILED:
            outcome = found
    return outcome, "; ".join(reasons), compared


def _judged(freed: DynamicDimsClaim, samples: Samples, edited: OutputModel) -> tuple[Outcome, str, list[Comparison]]:
    """The outcome for one dynamic dim, a sentence without a full stop, and the comparisons."""
    if freed.answers:
        return _outcome(freed, samples.run(edited, batch_sizes(freed.old)))
    return _outcome(freed, samples.run(edited, long_sizes(freed.old), every=False))


def long_sizes(old: int) -> Sequence[int]:
    """Two sizes beyond the old one for what needs not be a batch: a multiple, as models that halve theirs need it."""
    return tuple(dict.fromkeys((2 * old, old + 1, 3 * old)))[:2]


def _outcome(freed: DynamicDimsClaim, run: SampleRun) -> tuple[Outcome, str, list[Comparison]]:
    claimed = [one for name in freed.answers for one in run.compared.get(name, ())]
    wrong = next((found for found in claimed if not found.error.ok), None)
    at = f"at {freed.name}={_listed(run.ran)}"
    if wrong is not None:
        told = f"with {freed.name} free, '{wrong.error.name}' {wrong.why} {at}"
        return Outcome.FAILED, f"{told}, compared with as many runs of the original", claimed
    if not run.ran or (run.refusal and freed.answers):
        return Outcome.FAILED, f"the edited model runs at no other {freed.name} than {freed.old}: {run.refusal}", []
    right = freed.answers or tuple(run.right)
    mixed = [f"'{name}'" for name in freed.mixed if name not in run.right]
    nothing = f"beyond {freed.old} there is nothing to compare with"
    if not right:
        return Outcome.UNPROVED, f"{at} the edited model runs, but {nothing}", []
    proved = f"{at} it answers as the original does to each part by itself"
    if mixed:
        told = f"{proved}, but {join_first(mixed, NAMED)} sees more than one at once, and {nothing}"
        return Outcome.UNPROVED, told, claimed
    return Outcome.PROVED, proved, [one for found in run.compared.values() for one in found]


def _listed(sizes: Sequence[int]) -> str:
    """Sizes in words: 1, 2 and 7."""
    *others, last = map(str, sizes or [0])
    return f"{', '.join(others)} and {last}" if others else last
