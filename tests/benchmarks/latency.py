"""How long whole transformers take under ONNX Runtime as surgeon and its peers leave them: `--transformers`.

All files of one table are measured in one run of `surgeon.bench`, interleaved, batch 1.  A peer that fails, or whose
file ONNX Runtime refuses, is reported and left out.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import surgeon
from surgeon.file.model import Model
from surgeon.runtime.sessions.ort_session import SessionError, TimedSession
from surgeon.runtime.timing.latency import Bench
from surgeon.runtime.timing.samples import SLOWER
from tests.benchmarks.transformer_models import NAMES, exported
from tests.benchmarks.transformer_peers import GPU_PEERS, PEERS

__all__ = ["NAMES", "SEQUENCES", "tables"]

SEQUENCES = (128, 512)
OURS, ORIGINAL = "surgeon", "original"
OURS_AMONG = {True: ((OURS, None),), False: ((OURS, (ORIGINAL, "transformers")), ("half", ("halves",)))}
"""On a CPU and not: what of ours is held against which others."""
FOOT = """\
ms: one run, batch 1 unless told, median.  ratio: of the time to the original's in the same load, with the 95 %
interval (sign test over loads).  ONNX Runtime's own optimisations are on for all.
"""


@dataclass(frozen=True)
class Left:
    """What a contender left: a file, or one line on why there is none that runs."""

    path: Path
    why: str = ""
    seconds: float = 0.0


def tables(
    names: Sequence[str],
    *,
    seconds: float,
    threads: int,
    cpu_time: bool = False,
    sequences: Sequence[int] | None = None,
    keep: bool = False,
    ep: str = "cpu",
    batch: int = 1,
) -> bool:
    """Print a table for each model and length; whether surgeon's was nowhere slower than the best of the others."""
    print(FOOT)
    peers = PEERS if ep == "cpu" else GPU_PEERS
    held = True
    for name in names:
        source = exported(name)
        folder = source.parent / "out" / name
        try:
            left = {ORIGINAL: Left(source)}
            for peer in peers:
                words = ("tests.benchmarks.transformer_peers", peer, f"{name.partition('-')[0]} 12 768")
                # The rules change, the peers do not.
                left[peer] = made(words, source, folder / f"{peer}.onnx", again=peer == OURS, ep=ep)
            running = {peer: item.path for peer, item in left.items() if not item.why}
            for length in sequences or SEQUENCES:
                print(f"{name}, sequence {length}", file=sys.stderr, flush=True)
                sizes = {"batch": batch, "sequence": length}
                how = {"dims": sizes, "seconds": seconds, "threads": threads}
                found = surgeon.bench(*running.values(), **how, cpu_time=cpu_time, ep=ep)
                print("\n".join(table(f"{name}, sequence {length}", list(running), found)))
                for ours, others in OURS_AMONG[ep == "cpu"]:
                    text, fine = verdict(list(running), found, ours, others)
                    print(text, flush=True)
                    held &= fine
            print("\n".join(f"- {peer}: {item.why}" for peer, item in left.items() if item.why), flush=True)
        finally:
            if not keep:
                shutil.rmtree(folder, ignore_errors=True)
    return held


def table(title: str, names: Sequence[str], found: Bench) -> Iterator[str]:
    """The rows of one table: each contender's latency, and its ratio to the first's."""
    yield f"| {title} | ms | ratio | interval | |"
    yield "|---|--:|--:|--:|---|"
    for place, (name, latency) in enumerate(zip(names, found.models, strict=True)):
        ratio = found.ratio(place, 0)
        message = f"{ratio.ratio:.3f} | {ratio.low:.3f} to {ratio.high:.3f} | {ratio.verdict}" if place else "1 | |"
        yield f"| {name} | {latency.median:.1f} | {message} |"


def verdict(
    names: Sequence[str], found: Bench, own: str = OURS, others: Sequence[str] | None = None
) -> tuple[str, bool]:
    """One of ours against the best of others, all where none are named, and whether it is not slower within noise."""
    if own not in names:
        return f"- {own}'s file is missing: MISSED", False
    ours = names.index(own)
    against = [place for place, name in enumerate(names) if place != ours and (others is None or name in others)]
    if not against:
        return f"- {own}: none of the others is there: held", True
    best = min(against, key=lambda place: found.models[place].median)
    ratio = found.ratio(ours, best)
    held = ratio.verdict != SLOWER
    figures = f"{ratio.ratio:.3f} ({ratio.low:.3f} to {ratio.high:.3f}), {ratio.verdict}"
    return f"- {own} by the best of the others, {names[best]}: {figures}: {'held' if held else 'MISSED'}", held


def made(words: Sequence[str], source: Path, target: Path, again: bool = False, ep: str = "cpu") -> Left:
    """The file that `python -m WORDS IN OUT` leaves, which runs where there is none yet, or again."""
    target.parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    if again or not target.exists():
        print(f"{target.parent.name}: {target.stem}", file=sys.stderr, flush=True)
        target.unlink(missing_ok=True)
        command = (sys.executable, "-m", *words, str(source), str(target), *(() if ep == "cpu" else (ep,)))
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            lines = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
            return Left(target, f"fails ({lines[-1] if lines else ran.returncode})")
    seconds = time.perf_counter() - started
    try:
        with Model.open(target) as model:
            model.check_data()
        with TimedSession(target, provider=f"{ep.upper()}ExecutionProvider"):
            return Left(target, seconds=seconds)
    except SessionError as refused:
        return Left(target, f"writes a model that ONNX Runtime refuses ({refused.message})")
