"""Steps of a run that know of decoding: a comparison with the original, and texts for other steps to run on."""

import time
from dataclasses import dataclass, replace

import numpy as np

from surgeon.edits.decoders.sequence_sizes import found_decoder
from surgeon.errors import CheckFailed
from surgeon.file.model_like import OpenedModel
from surgeon.pipeline.checks import Checks
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.reports.report import Report
from surgeon.pipeline.transform import Claim, Failure, Transform
from surgeon.proof.check_result import Outcome
from surgeon.proof.model.decoding_check import DecoderSide, Feeds, compare_decoding

TEXTS = (64, 5)
"""Tokens of the texts on which losses are measured."""
_BATCH = 8  # texts of one run, if each has the scores of one token

REMEDY = "To write the folder without this comparison, choose the check 'sites'."


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
            raise CheckFailed(f"{failure.message}; nothing was written. {REMEDY}", self.report)
        return Claim.unchanged(self.report)


@dataclass(frozen=True, slots=True)
class OnTexts:
    """A transform that runs a decoder on texts of random tokens, unless the user gave inputs."""

    inner: Transform
    """The transform."""

    def apply(self, draft: ModelDraft, checks: Checks) -> Claim:
        """Apply the transform."""
        options = checks.options
        if not options.inputs:
            found = found_decoder(draft)
            model, made, rng = draft.before.skeleton, list[Feeds](), np.random.default_rng(options.seed)
            side = DecoderSide(model, model, found)
            batch = _BATCH if draft.facts(found.logits).type.tensor_type.shape.dim[1].dim_value == 1 else 2
            for count in TEXTS:
                ids = rng.integers(0, found.vocabulary, (batch, min(count, found.position_rows or count)))
                made.append(side.feeds(ids, np.ones_like(ids), np.broadcast_to(np.arange(ids.shape[1]), ids.shape), ()))
            checks = replace(checks, options=replace(options, inputs=made))
        return self.inner.apply(draft, checks)
