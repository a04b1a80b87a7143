"""Measurements in separate processes, so that a mutant that crashes or never ends costs only its own result."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from tests.mutation.measuring import CRASHED, Mutant, Result, measure
from tests.mutation.mutating import Subject

LIMIT = 120.0  # seconds of silence
BATCH = 25  # mutants that one process measures


@dataclass(eq=False)
class _Slot:
    """A process at work.  left: the mutants that it has said nothing of; is_silent: it has closed its mouth."""

    process: Any
    answers: Connection
    left: list[Mutant]
    deadline: float
    is_silent: bool = False


def measure_all(subjects: Mapping[str, Subject], mutants: Sequence[Mutant], jobs: int) -> Iterator[Result]:
    """What becomes of all mutants, in whatever order; several processes at once."""
    import onnxruntime  # noqa: F401  once, in front of all processes that are made of this one

    waiting = _batches(mutants)[::-1]
    slots: list[_Slot] = []
    while waiting or slots:
        while waiting and len(slots) < jobs:
            slots.append(_started(subjects, waiting.pop()))
        ready = wait([slot.answers for slot in slots], timeout=1.0)
        for slot in list(slots):
            while slot.answers in ready and not slot.is_silent and slot.answers.poll():
                yield from _heard(slot)
            if not slot.is_silent and time.monotonic() < slot.deadline:
                continue
            slot.process.kill()
            slot.process.join()
            slots.remove(slot)
            if slot.left:
                code = slot.process.exitcode
                yield Result(slot.left[0], CRASHED, f"the process ended with {code}, or was silent for {LIMIT:.0f} s")
                waiting += [slot.left[1:]] if slot.left[1:] else []


def _batches(mutants: Sequence[Mutant]) -> list[list[Mutant]]:
    by_subject: dict[str, list[Mutant]] = {}
    for one in mutants:
        by_subject.setdefault(one.subject, []).append(one)
    found: list[list[Mutant]] = []
    for group in by_subject.values():
        if found and len(found[-1]) + len(group) <= BATCH:
            found[-1] += group
        else:
            found += [group[at : at + BATCH] for at in range(0, len(group), BATCH)]
    return found


def _started(subjects: Mapping[str, Subject], mutants: list[Mutant]) -> _Slot:
    context = multiprocessing.get_context("fork")
    answers, mouth = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(subjects, mutants, mouth), daemon=True)
    process.start()
    mouth.close()
    return _Slot(process, answers, mutants, time.monotonic() + LIMIT)


def _work(subjects: Mapping[str, Subject], mutants: list[Mutant], mouth: Connection) -> None:
    for name in dict.fromkeys(one.subject for one in mutants):
        group = [one for one in mutants if one.subject == name]
        for result in measure(subjects[name], group):
            mouth.send(result)
    mouth.close()


def _heard(slot: _Slot) -> Iterator[Result]:
    try:
        result: Result = slot.answers.recv()
    except EOFError:
        slot.is_silent = True
        return
    slot.left = [one for one in slot.left if one != result.mutant]
    slot.deadline = time.monotonic() + LIMIT
    yield result
