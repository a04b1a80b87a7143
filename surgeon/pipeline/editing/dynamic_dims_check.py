"""Checks an edited model at sizes that the original cannot run, against runs of the original."""

from collections.abc import Sequence

from surgeon.file.save import OutputModel
from surgeon.pipeline.editing.batch_samples import SampleRun, Samples, batch_sizes
from surgeon.pipeline.editing.claim import DynamicDimsClaim
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.proof.check_options import CheckOptions
from surgeon.proof.check_result import Outcome
from surgeon.runtime.inputs.input_generator import InputsUnknown
from surgeon.runtime.numerics.array_comparison import Comparison
from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.shapes.constraints.input_dims import dim_kind
from surgeon.text import join_first

NAMED = 3


def check_beyond_fixed_size(
    draft: ModelDraft, original: OutputModel, edited: OutputModel, options: CheckOptions
) -> tuple[Outcome, str, list[Comparison]]:
    """Run the edited model at sizes that the original does not accept; each sample must equal the original's."""
    outcome, reasons, compared = Outcome.PROVED, list[str](), list[Comparison]()
    for claim in draft.claim.freed:
        try:
            found, reason, more = _judged(claim, Samples(claim, draft, original, options), edited)
        except InputsUnknown as unknown:
            found, reason, more = Outcome.UNPROVED, f"inputs cannot be generated: {unknown.reason}", list[Comparison]()
        except SessionError as refused:
            found, reason, more = Outcome.UNPROVED, f"the original does not run: {refused.message}", list[Comparison]()
        reasons.append(reason)
        compared += more
        if outcome is Outcome.PROVED or found is Outcome.FAILED:
            outcome = found
    return outcome, "; ".join(reasons), compared


def _judged(claim: DynamicDimsClaim, samples: Samples, edited: OutputModel) -> tuple[Outcome, str, list[Comparison]]:
    """The outcome for one dynamic dim, a reason, and the comparisons."""
    sizes = batch_sizes(claim.old) if claim.answers else long_sizes(claim.old)
    return _outcome(claim, samples.run(edited, sizes, every=bool(claim.answers)), samples.alike())


def long_sizes(old: int) -> Sequence[int]:
    """Two sizes beyond the old one for a dim that may not be a batch; one is a multiple, for models that halve it."""
    return tuple(dict.fromkeys((2 * old, old + 1, 3 * old)))[:2]


def _outcome(claim: DynamicDimsClaim, run: SampleRun, alike: Sequence[str]) -> tuple[Outcome, str, list[Comparison]]:
    is_batch, ordered = dim_kind(claim.name) == "batch", [name for name in claim.mixed if name in run.positional]
    names = (*claim.answers, *(ordered if is_batch else ()))
    claimed = [one for name in names for one in run.compared.get(name, ())]
    wrong = next((found for found in claimed if not found.error.ok), None)
    sizes = " and ".join(", ".join(map(str, run.ran)).rsplit(", ", 1))
    at = f"at {claim.name}={sizes}"
    if wrong is not None:
        reason = f"with a dynamic dim {claim.name}, '{wrong.error.name}' {wrong.why} {at}"
        return Outcome.FAILED, f"{reason}, compared with separate runs of the original", claimed
    if not run.ran or (run.refusal and claim.answers):
        return Outcome.FAILED, f"the edited model runs only with {claim.name}={claim.old}: {run.refusal}", []
    right = claim.answers or tuple(run.right)
    mixed = [f"'{name}'" for name in claim.mixed if name not in run.right]
    nothing = f"the original accepts only {claim.name}={claim.old}, so there is nothing to compare with"
    if not right and ordered and not is_batch and claim.old == 1:
        how = f"if {claim.name} is a batch, compare each sample: --free {max(claim.feeds.values())}=batch"
        return Outcome.UNPROVED, f"{at}, '{ordered[0]}' depends on the order along {claim.name}; {how}", []
    if not right:
        return Outcome.UNPROVED, f"{at} the edited model runs, but {nothing}", []
    proved = f"{at} each sample has the same outputs as in the original"
    if mixed:
        several = f"but {join_first(mixed, NAMED)} depends on several samples; {nothing}"
        return Outcome.UNPROVED, f"{proved}, {several}", claimed
    if alike:
        same = join_first([f"'{name}'" for name in alike], NAMED)
        return Outcome.UNPROVED, f"{proved}, but only for equal values of {same} in all samples", claimed
    return Outcome.PROVED, proved, [one for found in run.compared.values() for one in found]
