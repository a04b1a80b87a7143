"""`--never-slower`: the latency of what `surgeon rewrite --measure` writes, by that of rules alone and of peers.

All files of a model are measured in one run of `surgeon.bench`; equal files count as one.  A contender
that fails, or whose file computes something else, is reported and left out.  A second run has only the original, the
file of `--measure` and the best of the others, because the best of many is partly so by luck.  A line of the table
is missed if surgeon's file may be slower than one of the two.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnxruntime

import surgeon
from surgeon.pipeline.measuring.measure import LAST
from surgeon.runtime.timing.latency import Bench
from surgeon.runtime.timing.samples import FEWEST, Interval
from tests.benchmarks.latency import ORIGINAL, Left, made
from tests.benchmarks.never_slower_models import ROWS, Row, file

MEASURED = "--measure"
_RULES = ("surgeon", "rewrite", "--rules")
_PEERS, _OTHERS = "tests.benchmarks.transformer_peers", "tests.real_models.peers"
HEAD = """\
onnxruntime {}, all its optimisations, float32, {} threads.  A ratio is of the time to the original's, the median over
loads; behind it the 95 % interval, for each state of the machine.  {} is over --rules transformers, with one file for
all shapes of a model, and measured again beside the original and the best of the others.  ORT offline: its optimizer,
all levels.  ORT Python: onnxruntime.transformers.optimizer.  HF fusions: those of transformers for ONNX Runtime.
"""


def commands(row: Row, threads: int, budget: float) -> dict[str, Sequence[str]]:
    """What runs each contender, before the names of its files.  budget: seconds of `--measure`."""
    at = [word for shape in row.at for word in ("--at", ",".join(f"{key}={size}" for key, size in shape.items()))]
    return {
        "--rules ort": (*_RULES, "ort"),
        "--rules transformers": (*_RULES, "transformers"),
        "ORT offline": (_OTHERS, "ort"),
        "ORT Python": (_PEERS, "transformers", row.kind),
        "HF fusions": (_PEERS, "fusions", row.kind),
        "onnxslim": (_OTHERS, "onnxslim"),
        MEASURED: (*_RULES, "transformers", MEASURED, *at, "--threads", str(threads), "--budget", str(budget)),
    }


CONTENDERS = tuple(commands(ROWS["bert"], threads=1, budget=LAST))
COLUMNS = ("model", "shape", "original, ms", *CONTENDERS, "by the best of the others", "", "search, s")


def tables(names: Sequence[str], *, seconds: float, threads: int, keep: bool = False) -> bool:
    """Print the lines of each model; whether none is missed.

    seconds: of a model, for the run that decides, half as many for the first, and twice as many for `--measure`.
    """
    budget = max(LAST, 2 * seconds)
    print(HEAD.format(onnxruntime.__version__, threads, f"{MEASURED} --budget {budget:.0f}"))
    print(f"| {' | '.join(COLUMNS)} |\n|---|---|{'--:|' * (len(COLUMNS) - 4)}---|--:|", flush=True)
    told, held = [""], True
    for name in names:
        row, source = ROWS[name], file(name)
        folder = source.parent / "out" / name
        try:
            left = {ORIGINAL: Left(source)}
            for key, words in commands(row, threads, budget).items():
                item = made(words, source, folder / f"{key}.onnx", again=words[0] == "surgeon")
                left[key] = Left(item.path, item.why or _difference(source, item.path, row.at), item.seconds)
            files = {key: item.path for key, item in left.items() if not item.why}
            first = Measurement.of(files, row, threads=threads, loads=12, seconds=seconds / 2)
            best = [first.best(shape) for shape in range(len(row.at))]
            finals = {key: files[key] for key in (ORIGINAL, *best, MEASURED) if key in files}
            second = Measurement.of(finals, row, threads=threads, loads=24, seconds=seconds)
            for text, fine in lines(row, first, second, best):
                print(f"{text} {left[MEASURED].seconds:.0f} |", flush=True)
                held &= fine
            told += [f"- {row.title}, {key}: {item.why}" for key, item in left.items() if item.why]
        finally:
            if not keep:
                shutil.rmtree(folder, ignore_errors=True)
    print("\n".join(told), flush=True)
    return held


@dataclass(frozen=True)
class Measurement:
    """A benchmark in which equal files are one.  places: of the contenders there."""

    places: Mapping[str, int]
    bench: Bench

    @classmethod
    def of(cls, files: Mapping[str, Path], row: Row, *, threads: int, loads: int, seconds: float) -> Measurement:
        """Measure files, the original first, at least so many times or as seconds allow."""
        unlike = distinct(files)
        paths = list(dict.fromkeys(unlike.values()))
        print(f"{row.title}: {len(paths)} files", file=sys.stderr, flush=True)
        others = paths[1:] or paths  # where all are equal, the original beside itself
        loads = max(FEWEST, min(loads, round(seconds)))
        found = surgeon.bench(paths[0], *others, at=row.at, loads=loads, seconds=seconds, threads=threads)
        return cls({key: paths.index(path) for key, path in unlike.items()}, found)

    def states(self, name: str, reference: str, shape: int) -> Sequence[Interval]:
        """The ratio of two contenders at a shape, in each state of the machine."""
        return self.bench.ratio(self.places[name], self.places[reference], shape).states

    def best(self, shape: int) -> str:
        """The contender with the lowest ratio to the original, without that of `--measure`."""
        others = (name for name in self.places if name != MEASURED)
        return min(others, key=lambda name: self.states(name, ORIGINAL, shape)[0].ratio)


def distinct(files: Mapping[str, Path]) -> dict[str, Path]:
    """By name the first file with the same bytes."""
    first: dict[bytes, Path] = {}
    return {name: first.setdefault(path.read_bytes(), path) for name, path in files.items()}


def lines(row: Row, first: Measurement, second: Measurement, best: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """A line for each shape, and whether it is held.  best: of the others, by shape."""
    for shape, sizes in enumerate(row.at):
        cells = {name: f"{first.states(name, ORIGINAL, shape)[0].ratio:.3f}" for name in first.places}
        to_best, word, fine = "—", "MISSED: no file", False
        if MEASURED in second.places:
            ratios = [second.states(MEASURED, name, shape) for name in (ORIGINAL, best[shape])]
            word, fine = verdict([end for states in ratios for end in states], row.limit, second.bench.busy > 0)
            cells[MEASURED], to_best = _text(ratios[0]), f"{_text(ratios[1])} {best[shape]}"
        original = f"{second.states(ORIGINAL, ORIGINAL, shape)[0].milliseconds:.2f}"
        start = (row.title, " × ".join(map(str, sizes.values())), original)
        yield f"| {' | '.join((*start, *(cells.get(name, '—') for name in CONTENDERS), to_best, word))} |", fine


def verdict(intervals: Iterable[Interval], limit: float, is_busy: bool = False) -> tuple[str, bool]:
    """Of ratios of ours to others: whether none is slower, and the upper ends stay within the limit."""
    ends = list(intervals)
    high = max(end.high for end in ends)
    if is_busy:
        return "UNDECIDED: busy", False
    if max(end.low for end in ends) > 1:
        return "MISSED: slower", False
    return (f"MISSED: may be {high:.3f}", False) if high > limit else ("best" if high < 1 else "as good", True)


def _text(states: Iterable[Interval]) -> str:
    return ", ".join(f"{one.ratio:.3f} ({one.low:.3f} to {one.high:.3f})" for one in states)


def _difference(source: Path, target: Path, at: Sequence[Mapping[str, int]]) -> str:
    """Why a file does not compute what the original does at each shape; empty if it does."""
    found = (surgeon.compare(source, target, dims=sizes) for sizes in at)
    return next((one.reason for one in found if one.outcome.value == "failed"), "")
