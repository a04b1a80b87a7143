"""One region proved: narrow where that is possible, under ONNX Runtime or by an evaluator."""

import time
from collections.abc import Callable
from typing import Any

from surgeon.sites.experiment import Experiment
from surgeon.sites.narrowing import narrowed
from surgeon.sites.proof import SiteProof
from surgeon.sites.site_proof import Attempt
from surgeon.verdicts.compare import stated
from surgeon.verdicts.result import Outcome


def run_experiment(experiment: Experiment, note: Callable[[Any], None] = lambda _: None) -> SiteProof:
    """Run both sides and judge.  What the models do never raises: every way of not running is an outcome.

    note: told which side is run next, and how many runs agreed before: what it takes in may be its last.
    """
    started = time.perf_counter()
    options = experiment.options
    proof, outcome, reason = _found(experiment, note)
    return SiteProof(
        outcome=outcome,
        reason=reason,
        oracle=proof.oracle,
        independent=proof.independent,
        reference=proof.against,
        errors=tuple(proof.worst.values()),
        runs=proof.runs,
        tolerance=stated({error.dtype: None for error in proof.worst.values()}, options.rtol, options.atol),
        seconds=time.perf_counter() - started,
        is_of_weights=proof.is_of_weights,
        kinds=tuple(proof.kinds),
        sizes=tuple(dict.fromkeys(proof.sizes)),
    )


def _found(experiment: Experiment, note: Callable[[Any], None]) -> tuple[Attempt, Outcome, str]:
    """Run a region narrow where its dims may be made small, and as it is once; else, or if that fails, as it is."""
    for narrow in narrowed(experiment):
        found = _run(narrow, lambda told: note({**told, "at": None}))  # the sizes of another experiment
        if found[1] is Outcome.PROVED:
            once = Attempt(experiment, note, once=True)
            if once.judged()[0] is Outcome.PROVED:
                found[0].take(once)
                return found
    return _run(experiment, note)


def _run(experiment: Experiment, note: Callable[[Any], None]) -> tuple[Attempt, Outcome, str]:
    """Run an experiment under ONNX Runtime, or where its kernels take less than the ops allow by an evaluator."""
    proof = Attempt(experiment, note)
    outcome, reason = proof.judged()
    if proof.is_refused:
        other = Attempt(experiment, note, is_evaluated=True)
        found = other.judged()
        if found[0] is not Outcome.UNPROVED:
            return other, *found
    return proof, outcome, reason
