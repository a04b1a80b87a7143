"""`--never-slower`: the latency of what `surgeon rewrite --measure` writes, beside rules without it and peers.

All files of a model are measured in one run of `surgeon.bench`; equal files count as one.  What fails, or writes a file
that does not compute what the original does at each shape, is told and left out.  A line of the table is missed if
surgeon's file may be slower than the best of the others, the original among them.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import onnxruntime

import surgeon
from surgeon.runtime.timing.latency import Bench
from surgeon.runtime.timing.samples import FEWEST, Interval
from tests.benchmarks.latency import ORIGINAL, Left, made
from tests.benchmarks.never_slower_models import ROWS, Row, file

MEASURED = "--measure"
_RULES = ("surgeon", "rewrite", "--rules")
_PEERS, _OTHERS = "tests.benchmarks.transformer_peers", "tests.real_models.peers"
HEAD = """\
onnxruntime {}, all its optimisations, float32, {} threads.  A ratio is of the time to the original's, the median over
loads; behind it the 95 % interval, for each state of the machine.  {} is over --rules transformers, one file for all
shapes of a model.  ORT offline: its optimizer, all levels.  ORT Python: onnxruntime.transformers.optimizer.  HF
fusions: those of transformers for ONNX Runtime.
"""


def commands(row: Row, threads: int) -> dict[str, Sequence[str]]:
    """What runs each contender, before the names of its files."""
    at = [word for shape in row.at for word in ("--at", ",".join(f"{key}={size}" for key, size in shape.items()))]
    return {
        "--rules ort": (*_RULES, "ort"),
        "--rules transformers": (*_RULES, "transformers"),
        "ORT offline": (_OTHERS, "ort"),
        "ORT Python": (_PEERS, "transformers", row.kind),
        "HF fusions": (_PEERS, "fusions", row.kind),
        "onnxslim": (_OTHERS, "onnxslim"),
        MEASURED: (*_RULES, "transformers", MEASURED, *at, "--threads", str(threads)),
    }


CONTENDERS = tuple(commands(ROWS["bert"], 1))
COLUMNS = ("model", "shape", "original, ms", *CONTENDERS, "by the best of the others", "", "search, s")


def tables(names: Sequence[str], *, seconds: float, threads: int, keep: bool = False) -> bool:
    """Print the lines of each model; whether none is missed.  seconds: for the loads of one model."""
    print(HEAD.format(onnxruntime.__version__, threads, MEASURED))
    print(f"| {' | '.join(COLUMNS)} |\n|---|---|{'--:|' * (len(COLUMNS) - 4)}---|--:|", flush=True)
    told, held = [""], True
    for name in names:
        row, source = ROWS[name], file(name)
        folder = source.parent / "out" / name
        try:
            left = {ORIGINAL: Left(source)}
            for key, words in commands(row, threads).items():
                item = made(words, source, folder / f"{key}.onnx", again=words[0] == "surgeon")
                left[key] = Left(item.path, item.why or _difference(source, item.path, row.at), item.seconds)
            files = distinct({key: item.path for key, item in left.items() if not item.why})
            paths = list(dict.fromkeys(files.values()))
            print(f"{name}: {len(paths)} files", file=sys.stderr, flush=True)
            others = paths[1:] or paths  # where all are equal, the original beside itself
            loads = min(24, max(FEWEST, round(seconds)))
            found = surgeon.bench(source, *others, at=row.at, loads=loads, seconds=seconds, threads=threads)
            for text, fine in lines(row, {key: paths.index(path) for key, path in files.items()}, found):
                print(f"{text} {left[MEASURED].seconds:.0f} |", flush=True)
                held &= fine
            told += [f"- {row.title}, {key}: {item.why}" for key, item in left.items() if item.why]
        finally:
            if not keep:
                shutil.rmtree(folder, ignore_errors=True)
    print("\n".join(told), flush=True)
    return held


def distinct(files: Mapping[str, Path]) -> dict[str, Path]:
    """By name the first file with the same bytes."""
    first: dict[bytes, Path] = {}
    return {name: first.setdefault(path.read_bytes(), path) for name, path in files.items()}


def lines(row: Row, places: Mapping[str, int], found: Bench) -> Iterator[tuple[str, bool]]:
    """A line for each shape, and whether it is held.  places: of the contenders' files in the benchmark."""
    for shape, sizes in enumerate(row.at):
        ratios = {name: found.ratio(place, 0, shape) for name, place in places.items()}
        cells = {name: f"{ratio.ratio:.3f}" for name, ratio in ratios.items()}
        to_best, word, fine = "—", "MISSED: no file", False
        if MEASURED in places:
            best = min((name for name in places if name != MEASURED), key=lambda name: ratios[name].ratio)
            states = found.ratio(places[MEASURED], places[best], shape).states
            word, fine = verdict([*states, *ratios[MEASURED].states], row.limit, found.busy > 0)
            cells[MEASURED], to_best = _text(ratios[MEASURED].states), f"{_text(states)} {best}"
        original = f"{found.ratio(0, 0, shape).states[0].milliseconds:.2f}"
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
