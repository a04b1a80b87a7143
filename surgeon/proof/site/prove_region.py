"""The proof of one region: at reduced dims if possible, under ONNX Runtime or an evaluator.

A region that is proved at reduced dims runs once more at its own dims, unless that is too costly: a dim may mean more
than its size.
"""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from surgeon.ops.traversal import nodes_of
from surgeon.proof.cases.dims import CaseDims
from surgeon.proof.check_result import Outcome
from surgeon.proof.proof_case import ProofCase
from surgeon.proof.site.case_reduction import reduce_dims
from surgeon.proof.site.proof_run import ProofRun
from surgeon.proof.site_proof import SiteProof
from surgeon.runtime.numerics.array_comparison import tolerances_in_force
from surgeon.runtime.processes.dataclass_json import to_json_value
from surgeon.runtime.processes.worker_main import NOTE_BYTES
from surgeon.runtime.quirks import IMPRECISE_BODIES
from surgeon.runtime.sessions.unknown_ops import unknown_ops_hint

MAX_WORK = 4e8  # multiplications per second of a proof up to which a region also runs at its own dims


def prove_case(case: ProofCase, note: Callable[[Any], None] = lambda _: None) -> SiteProof:
    """Run both sides and judge.  A failing model never raises: every way of not running is an outcome.

    note: receives the side that runs next and the number of agreed runs, because that run may end the process.
    """
    started = time.perf_counter()
    options = case.options
    proof, outcome, reason = _found(case, note)
    found = proof.findings
    if outcome is Outcome.PROVED and not found.independent:
        outcome, reason = Outcome.UNPROVED, _by_itself(case)
    if outcome is Outcome.PROVED and (unrun := _unlike_bodies(case)):
        reason = "; ".join(filter(None, (reason, unrun)))
    made = SiteProof(
        outcome=outcome,
        reason=reason,
        oracle=found.oracle,
        not_on_target=found.not_on_target,
        independent=found.independent,
        reference=found.reference,
        errors=tuple(found.summary.worst.values()),
        runs=found.runs,
        tolerance=tolerances_in_force(
            {error.dtype: None for error in found.summary.worst.values()}, options.rtol, options.atol
        ),
        depends_on_weights=found.depends_on_weights,
        kinds=tuple(found.kinds),
        sizes=tuple(dict.fromkeys(found.sizes)),
        unseen=() if proof.coverage is None or outcome is Outcome.FAILED else proof.coverage.unseen,
    )
    return replace(made, reason=_of_small_case(case, proof, made, note), seconds=time.perf_counter() - started)


def _of_small_case(case: ProofCase, run: ProofRun, proof: SiteProof, note: Callable[[Any], None]) -> str:
    """The reason of a proof; if a case failed, the reason of the smallest part of it that fails too.

    The proof is noted first: a part may end the process, or take too long.
    """
    reduction = run.reduction
    text = "" if reduction is None else reduction.failing.text
    is_last = case.explains or proof.outcome is Outcome.UNPROVED  # a failed site may be proved in context
    if reduction is None or not is_last or not proof.reason.startswith(text):
        return proof.reason
    errors = () if proof.worst is None else (proof.worst,)
    noted = {"proof": to_json_value(replace(proof, kinds=(), sizes=(), errors=errors))}
    if len(json.dumps(noted)) >= NOTE_BYTES:
        return proof.reason
    note(noted)
    small = reduction.reason()
    return f"{small}{proof.reason[len(text) :]}" if small else proof.reason


def _by_itself(case: ProofCase) -> str:
    """Why agreement proves little if the rule's own pattern computed both sides."""
    sides, custom_ops = case.models, case.options.custom_ops
    help_ = next(filter(None, (unknown_ops_hint(model, custom_ops) for model in (sides.after, sides.before))), "")
    return f"only the rule's own pattern computes the replacement, so the order of inputs is not checked{help_}"


def _unlike_bodies(case: ProofCase) -> str | None:
    """Operators of the replacement that ONNX Runtime computes differently from this proof, as a clause."""
    # quirks.IMPRECISE_GROUP_NORM
    written = dict.fromkeys((node.domain, node.op_type) for node in nodes_of(case.models.after))
    coarse = [(op, IMPRECISE_BODIES[domain, op]) for domain, op in written if (domain, op) in IMPRECISE_BODIES]
    notes = [f"ONNX Runtime has no kernel for {op} and computes it in another way: {body}" for op, body in coarse]
    return "; ".join(notes) or None


def _found(case: ProofCase, note: Callable[[Any], None]) -> tuple[ProofRun, Outcome, str]:
    """Run a region at reduced dims if possible, then once at its own; if that fails, only at its own.

    If its own dims are too large, the reduced run decides.  If that fails, a dim may mean more than its size:
    unproved.
    """
    failed: tuple[ProofRun, Outcome, str] | None = None
    for narrow in reduce_dims(case):
        run, outcome, reason = _run(narrow, lambda step: note({**step, "at": None}))  # sizes of the reduced case
        if outcome is Outcome.UNPROVED:
            continue
        if _is_much_as_it_is(case):
            limited = "; ".join(filter(None, (reason, _made_smaller(case, narrow))))
            if outcome is Outcome.PROVED:
                return run, outcome, limited
            if case.weights:
                return run, outcome, reason  # it runs again with the model's weights
            failed = failed or (run, Outcome.UNPROVED, limited)
        elif outcome is Outcome.PROVED:
            once = ProofRun(case, note, once=True)
            if once.outcome()[0] is Outcome.PROVED:
                run.merge(once)
                return run, outcome, reason
    return failed or _run(case, note)


def _is_much_as_it_is(case: ProofCase) -> bool:
    """Whether one run at the true fixed dims takes too long, or its inputs are too large to generate."""
    usual = CaseDims(case, case.options.dims).as_it_is()
    return usual is None or usual.work > MAX_WORK * case.options.proof_time


def _made_smaller(case: ProofCase, narrow: ProofCase) -> str:
    """The dims that were smaller in a reduced run, as a reason."""
    usual = CaseDims(narrow, narrow.options.dims).default()
    pairs = zip(case.inputs, narrow.inputs, strict=True)
    dims = {(one, other) for was, now in pairs for one, other in zip(was.shape, now.shape, strict=True)}
    sizes = {one: other if usual is None else usual.size(other) for one, other in dims if isinstance(one, int)}
    reduced = ", ".join(f"{now} instead of {one:,}" for one, now in sorted(sizes.items()) if one != now)
    return f"checked only at smaller sizes ({reduced}), because the full size takes too long (--proof-time)"


def _run(case: ProofCase, note: Callable[[Any], None]) -> tuple[ProofRun, Outcome, str]:
    """Run a case under ONNX Runtime, or by an evaluator if ONNX Runtime's kernels reject valid inputs.

    A failure under ONNX Runtime is final.
    """
    proof = ProofRun(case, note)
    outcome, reason = proof.outcome()
    if proof.is_refused and outcome is not Outcome.FAILED:
        other = ProofRun(case, note, is_evaluated=True)
        found = other.outcome()
        if found[0] is not Outcome.UNPROVED:
            return other, *found
    return proof, outcome, reason
