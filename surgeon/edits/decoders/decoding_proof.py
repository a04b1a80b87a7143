"""A step of a run that changes nothing: it decodes with the model so far, and compares with the original."""

import time
from dataclasses import dataclass, replace

from surgeon.errors import CheckFailed
from surgeon.file.model_like import OpenedModel
from surgeon.pipeline.checks import Checks
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.reports.report import Report
from surgeon.pipeline.transform import Claim, Failure
from surgeon.proof.check_result import Outcome
from surgeon.proof.model.decoding_check import compare_decoding


@dataclass(frozen=True, slots=True)
class DecodingProof:
    """Compare step-by-step decoding of padded batches with the original on each sequence by itself."""

    original: OpenedModel
    """The original."""
    report: Report
    """Report of the whole run, which gets the comparison."""

    def apply(self, draft: ModelDraft, checks: Checks) -> Claim:
        """Compare.  Raises CheckFailed if the scores differ, or are not proved to be equal although that is required.
        """
        started = time.perf_counter()
        assert draft.snapshot is not None  # the driver sets it
        found = compare_decoding(self.original, (draft.before, draft.snapshot.runnable), checks.options)
        self.report.record(replace(found, seconds=time.perf_counter() - started))
        if found.outcome is Outcome.FAILED or (found.outcome is Outcome.UNPROVED and checks.require_proof):
            how = "decodes differently from" if found.outcome is Outcome.FAILED else "is not proved to decode as"
            failure = Failure.of(found.reason, f"The new model {how} the original")
            raise CheckFailed(f"{failure.message}; nothing was written.", self.report)
        return Claim.unchanged(self.report)
