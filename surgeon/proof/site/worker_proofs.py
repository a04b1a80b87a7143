"""Proof cases run in workers, and the outcome if one ends its worker."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from onnx import ModelProto

from surgeon.file.external_data.on_demand import fetch_all
from surgeon.ops.traversal import holds_any
from surgeon.proof.cache.disk_store import disk_store
from surgeon.proof.cache.proof_key import current_store, find_proof, proof_key, store_proof
from surgeon.proof.check_result import Outcome
from surgeon.proof.proof_case import REPLACEMENT, InnerShapesRequest, ProofCase, ProofOptions, TracedShapes
from surgeon.proof.site.largest_tensor import dims_from_json, largest_tensor
from surgeon.proof.site_proof import SiteProof
from surgeon.runtime.implementations.implementation import local_only_ops
from surgeon.runtime.processes import worker, worker_pool
from surgeon.runtime.processes.dataclass_json import from_json_value
from surgeon.runtime.processes.worker import (
    CPU_FAULT_SIGNALS,
    Task,
    TaskFailure,
    TaskOutcome,
    TaskResult,
    memory_limit,
    wall_clock_limit,
)

MODULE = "surgeon.proof.site.proof_tasks"
MORE_MEMORY = "Use a machine with more memory"
MORE = 6  # factor on the time limit: proposed after a timeout, and granted to a run of the whole model
MAX_MODEL_BYTES = (1 << 31) - 1  # bytes of a model that protobuf writes
_TRACE_WITHOUT = {
    "time": "took too long",
    "clock": "took too long",
    "memory": "takes more memory than available",
}


def start() -> None:
    """Start a worker if there is none, so that it is ready for the first proof."""
    worker.warm_up(MODULE)


def needs_this_process(case: ProofCase) -> bool:
    """Whether an operator of either side has an implementation that runs only in this process."""
    sides, own = case.models, local_only_ops(case.options.custom_ops)
    return holds_any(sides.before, own) or holds_any(sides.after, own)


def prove_in_process(case: ProofCase) -> SiteProof:
    """Prove a case in this process: without limits, and a crash ends this process."""
    from surgeon.proof.site.prove_region import prove_case  # not at the top: what runs models is for children

    return prove_case(case)


def prove_cases(cases: Iterable[ProofCase], options: ProofOptions) -> list[SiteProof]:
    """The proofs of cases, in order.  Cases are requested one by one while workers run earlier ones.

    A case that a store has a proof for is not run.
    """
    stores = [store for store in (current_store(), disk_store() if options.cache else None) if store is not None]
    if not stores:
        return _proofs_made(cases, options.jobs)
    known: dict[int, SiteProof] = {}
    away: list[tuple[int, ProofCase, str | None]] = []

    def unknown() -> Iterator[ProofCase]:
        for place, case in enumerate(cases):
            key = proof_key(case)
            found = find_proof(case, key, stores)
            if found is not None:
                known[place] = found
            else:
                away.append((place, case, key))
                yield case

    made = _proofs_made(unknown(), options.jobs)
    for (place, case, key), proof in zip(away, made, strict=True):
        known[place] = proof
        store_proof(case, key, proof, stores)
    return [known[place] for place in sorted(known)]


def _proofs_made(cases: Iterable[ProofCase], jobs: int) -> list[SiteProof]:
    """The same, without a store."""
    asked: list[ProofCase] = []

    def tasks() -> Iterator[Task]:
        for case in cases:
            asked.append(case)
            yield _task(case)

    results = worker_pool.run(tasks(), jobs or worker_pool.default_jobs())
    again = [place for place, result in enumerate(results) if _ended_on_empty(result)]
    if again:  # some kernels crash on empty tensors (quirks.EMPTY_RECURRENT): prove the rest
        without = [replace(asked[place], allows_empty=False) for place in again]
        more = worker_pool.run((_task(case) for case in without), jobs or worker_pool.default_jobs())
        for place, result in zip(again, more, strict=True):
            results[place] = result
    return [_proof(case, result) for case, result in zip(asked, results, strict=True)]


def _task(case: ProofCase) -> Task:
    return Task(f"{MODULE}:prove", case, case.options.proof_time)


def _ended_on_empty(result: TaskOutcome) -> bool:
    """Whether a case ended its worker on an empty tensor."""
    return (
        isinstance(result, TaskFailure) and isinstance(result.last_note, dict) and bool(result.last_note.get("empty"))
    )


def run_inner_shapes(trace: InnerShapesRequest) -> TracedShapes:
    """The inner shapes that one run of a whole model shows.  Raises UsageError for sizes of unknown dims."""
    if holds_any(trace.skeleton, local_only_ops(trace.options.custom_ops)):
        from surgeon.proof.site.proof_tasks import found_by  # not at the top: what runs models is for children

        return found_by(trace)
    if isinstance(trace.model, ModelProto) and trace.model.ByteSize() > MAX_MODEL_BYTES:
        return TracedShapes({}, f"The model is too large to be run in memory ({trace.model.ByteSize() / 1e9:.1f} GB).")
    fetch_all()
    seconds = trace.options.proof_time * MORE
    (result,) = worker_pool.run([Task(f"{MODULE}:trace", trace, seconds)], 1)
    if isinstance(result, TaskResult):
        with suppress(ValueError):
            return from_json_value(TracedShapes, result.value)
    why = _TRACE_WITHOUT.get(result.cause) if isinstance(result, TaskFailure) else None
    how = f" with {result.detail}" if isinstance(result, TaskFailure) and result.detail else ""
    return TracedShapes({}, f"One run of the model to find it {why or f'ended its process{how}'}.")


def _proof(case: ProofCase, result: TaskOutcome) -> SiteProof:
    if isinstance(result, TaskFailure):
        return _without_answer(case, result)
    try:
        return from_json_value(SiteProof, result.value)
    except ValueError as error:
        return SiteProof(Outcome.UNPROVED, f"the worker process returned no proof: {error}")


def _without_answer(case: ProofCase, failure: TaskFailure) -> SiteProof:
    noted = failure.last_note if isinstance(failure.last_note, dict) else {}
    if "proof" in noted:
        return from_json_value(SiteProof, noted["proof"])  # what ended the worker is the reduction of its case
    side = str(noted.get("side") or "its proof")
    if failure.cause in ("time", "clock"):
        return SiteProof(Outcome.UNPROVED, _too_long(case, failure, noted))
    if failure.cause == "memory":
        largest = _largest(case, noted)
        why = f"{side} takes more than {memory_limit() / 1e9:.1f} GB of memory{f' ({largest})' if largest else ''}"
        cures = [f"Use {cure}" for cure in _smaller(case)] or [MORE_MEMORY]
        return SiteProof(Outcome.UNPROVED, f"{why}. {cures[0]}")
    why = f"{side} crashes its process{f' with {failure.detail}' if failure.detail else ''}"
    if side == REPLACEMENT and failure.detail in CPU_FAULT_SIGNALS:
        return SiteProof(Outcome.FAILED, f"{why}, but the original does not")
    return SiteProof(Outcome.UNPROVED, why)


def _too_long(case: ProofCase, failure: TaskFailure, noted: dict[str, Any]) -> str:
    """How far the proof came in its time, and the remedy."""
    seconds, agreed = case.options.proof_time, noted.get("agreed")
    took = f"{seconds:g} s" if failure.cause == "time" else f"{wall_clock_limit(seconds):g} s of wall time"
    until = f" ({agreed} run{'s' * (agreed != 1)} agreed)" if isinstance(agreed, int) and agreed else ""
    cures = [*_smaller(case), f"more time (--proof-time {seconds * MORE:g})"]
    return f"its proof was stopped after {took}{until}. Use {' or '.join(cures)}"


def _largest(case: ProofCase, noted: dict[str, Any]) -> str | None:
    """The largest tensor of the last run, if its sizes are known."""
    at = noted.get("at")
    if not isinstance(at, dict):
        return None
    sides = case.models
    side = sides.after if noted.get("side") == REPLACEMENT else sides.before
    return largest_tensor(case, side, dims_from_json(at))


def _smaller(case: ProofCase) -> list[str]:
    """Dims that can be given smaller sizes, as a cure; none if no dim is dynamic."""
    names = case.free[:2]
    return [f"smaller sizes ({' '.join(f'--dim {name}=2' for name in names)})"] if names else []
