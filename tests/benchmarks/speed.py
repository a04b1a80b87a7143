"""The speed table: each work in processor time next to a peer or to an earlier commit, in interleaved rounds.

`python -m tests.benchmarks --speed [--before COMMIT] [WORK ...]`.  Rows that compare with an earlier version need
`--before`: that commit is checked out into a folder for the run.  Processor time includes that of workers.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.benchmarks.measure import Run, measure

HERE, ROOT = Path(__file__).parent, Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "notebooks" / "models" / "tiny_distilbert.onnx"
NOW, BEFORE = "surgeon", "before"
Runs = Mapping[str, Sequence[Run]]


@dataclass(frozen=True)
class Row:
    """One figure of a work, with its bar."""

    text: str
    """What is measured."""
    figure: Callable[[Runs], float]
    """From the runs of the contenders, by name."""
    bar: float
    """What it may be."""
    at_least: bool = False
    """Whether the bar is the least, not the most."""

    def line(self, runs: Runs) -> tuple[str, bool]:
        """A row of the table, and whether the bar is held."""
        found = self.figure(runs)
        held = found >= self.bar if self.at_least else found <= self.bar
        sign = "≥" if self.at_least else "≤"
        return f"| {self.text} | {found:.2f} | {sign} {self.bar:g} | {'held' if held else 'MISSED'} |", held


@dataclass(frozen=True)
class Work:
    """A model, the commands over it, and the figures of their runs."""

    title: str
    """For people."""
    model: str
    """A name of `speed_models` or `works`; "" for the shipped DistilBERT."""
    commands: Mapping[str, tuple[str, ...]]
    """Arguments of surgeon, or a peer in a tuple of one, by contender."""
    rows: tuple[Row, ...]
    """Figures."""


def ratio(name: str, other: str) -> Callable[[Runs], float]:
    """The processor time of a contender by that of another, the median over the rounds."""
    return lambda runs: median(a.processor / b.processor for a, b in zip(runs[name], runs[other], strict=True))


def beyond(name: str, other: str) -> Callable[[Runs], float]:
    """The processor time of a contender less that of another, in seconds, the median over the rounds."""
    return lambda runs: median(a.processor - b.processor for a, b in zip(runs[name], runs[other], strict=True))


def memory(name: str, other: str) -> Callable[[Runs], float]:
    """The peak memory of a contender by that of another."""
    return lambda runs: max(run.megabytes for run in runs[name]) / max(run.megabytes for run in runs[other])


def wall(name: str) -> Callable[[Runs], float]:
    """The seconds of a contender by the clock, the median over the rounds."""
    return lambda runs: median(run.seconds for run in runs[name])


def seconds(name: str) -> Callable[[Runs], float]:
    """The processor time of a contender, in seconds, the median over the rounds."""
    return lambda runs: median(run.processor for run in runs[name])


def _rewrite(rules: str, *more: str) -> tuple[str, ...]:
    return ("rewrite", "IN", "OUT", "--rules", rules, *more)


AGAIN, UNCHECKED, PROVED = "surgeon, second run", "surgeon, unchecked", "surgeon, proved"
FLOAT16 = ("convert", "IN", "OUT", "--to", "float16")


def _of_before(text: str, bar: float) -> Row:
    return Row(f"{text}, by the time before", ratio(NOW, BEFORE), bar)


def _convert(title: str, model: str) -> Work:
    rows = (Row(f"{title}, seconds", seconds(NOW), 15.0), _of_before(title, 1.0))
    return Work(f"{title} to float16", model, {NOW: FLOAT16, BEFORE: FLOAT16}, rows)


def _works() -> dict[str, Work]:
    unchecked = _rewrite("transformers", "--check", "none")
    bert = {
        NOW: _rewrite("transformers"),
        AGAIN: _rewrite("transformers"),
        UNCHECKED: unchecked,
        "onnxslim": ("onnxslim",),
    }
    gelu = _rewrite("gelu", "--check", "none")
    many = {NOW: gelu, PROVED: _rewrite("gelu"), "limit": ("limit",), "gs": ("gs",), "onnxscript": ("onnxscript",)}
    two, smollm = _rewrite("ort", "--check", "none"), _rewrite("transformers")
    return {
        "bert": Work(
            "BERT of 24 layers, --rules transformers",
            "bert",
            bert,
            (
                Row("first run, by onnxslim", ratio(NOW, "onnxslim"), 0.6),
                Row("second run, by onnxslim", ratio(AGAIN, "onnxslim"), 0.4),
                Row("--check none, by onnxslim", ratio(UNCHECKED, "onnxslim"), 0.3),
            ),
        ),
        "distilbert": Work(
            "the shipped DistilBERT, --rules ort",
            "",
            {NOW: _rewrite("ort"), AGAIN: _rewrite("ort")},
            (
                Row("first run, seconds by the clock", wall(NOW), 2.0),
                Row("second run, seconds by the clock", wall(AGAIN), 1.3),
            ),
        ),
        "many": Work(
            "120,000 nodes, 20,000 GELUs",
            "n20000",
            many,
            (
                Row("--check none, by load + save", ratio(NOW, "limit"), 2.6),
                Row("gs, by surgeon", ratio("gs", NOW), 6.0, at_least=True),
                Row("onnxscript, by surgeon", ratio("onnxscript", NOW), 7.5, at_least=True),
                Row("memory, by load + save", memory(NOW, "limit"), 1.6),
                Row("proofs, seconds more", beyond(PROVED, NOW), 0.8),
            ),
        ),
        "two": Work("2 nodes, --rules ort", "two", {NOW: two, BEFORE: two}, (_of_before("2 nodes", 0.6),)),
        "smollm": Work(
            "smollm_2, --rules transformers", "smollm", {NOW: smollm, BEFORE: smollm}, (_of_before("smollm_2", 0.3),)
        ),
        "dfine": _convert("D-FINE", "dfine"),
        "rtdetr": _convert("RT-DETRv2", "rtdetr"),
    }


WORKS = _works()


def tables(names: Sequence[str], runs: int, before: str | None) -> bool:
    """Print the table; whether all bars are held."""
    held = True
    print("| work | measured | bar | |\n|---|--:|--:|---|")
    with tempfile.TemporaryDirectory() as text, _checkout(before, Path(text)) as earlier:
        for name in names:
            work = WORKS[name]
            found = _measured(work, runs, Path(text), {NOW: ROOT, **({BEFORE: earlier} if earlier else {})})
            print(f"| **{work.title}** | | | |")
            for row in work.rows:
                try:
                    line, is_held = row.line(found)
                except KeyError:  # there is no earlier version
                    line, is_held = f"| {row.text} | | {row.bar:g} | needs --before |", True
                held &= is_held
                print(line, flush=True)
    return held


def _measured(work: Work, runs: int, folder: Path, trees: Mapping[str, Path]) -> dict[str, list[Run]]:
    """The runs of each contender, in interleaved rounds; one round before warms the caches of the system."""
    source = _model(work.model)
    found: dict[str, list[Run]] = {name: [] for name in work.commands if name != BEFORE or BEFORE in trees}
    warm = {name: folder / f"warm-{number}" for number, name in enumerate(found)}
    for count in range(runs + 1):
        order = list(found)[count % len(found) :] + list(found)[: count % len(found)]
        for name in order:
            out = folder / "out"
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
            tree, cache = trees.get(name, ROOT), warm[name]
            if name != AGAIN:  # a first run of this model, on a machine that has run surgeon before
                for part in ("proofs", "notes"):
                    shutil.rmtree(cache / part, ignore_errors=True)
            run = measure(_command(work.commands[name], source, out / source.name), _surroundings(tree, cache))
            print(f"  {work.model or 'distilbert'} {name:20} {run.processor:8.2f} s", file=sys.stderr, flush=True)
            if count:
                found[name].append(run)
    return found


def _command(given: tuple[str, ...], source: Path, target: Path) -> tuple[str, ...]:
    if len(given) == 1:
        return (sys.executable, str(HERE / "peers.py"), given[0], str(source), str(target))
    paths = {"IN": str(source), "OUT": str(target)}
    return (sys.executable, "-m", "surgeon", *[paths.get(word, word) for word in given])


def _surroundings(tree: Path, cache: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(tree), "PYTHONSAFEPATH": "1", "SURGEON_CACHE": str(cache)}


def _model(name: str) -> Path:
    """The file of a model; made on first use, and kept under a key of the sources that make it."""
    if not name:
        return SHIPPED
    module = "works" if name.startswith("n") else "speed_models"
    sources = b"".join((HERE / file).read_bytes() for file in ("works.py", "speed_models.py"))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "surgeon-benchmarks-speed"
    path = cache / hashlib.sha256(sources).hexdigest()[:8] / f"{name}.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{os.getpid()}-{path.name}")
        subprocess.run((sys.executable, "-m", f"tests.benchmarks.{module}", name, str(partial)), check=True, cwd=ROOT)
        partial.replace(path)
    return path


@contextmanager
def _checkout(commit: str | None, folder: Path) -> Iterator[Path | None]:
    """A worktree of a commit; None without one."""
    if commit is None:
        yield None
        return
    tree = folder / "before"
    subprocess.run(("git", "-C", str(ROOT), "worktree", "add", "-q", "--detach", str(tree), commit), check=True)
    try:
        yield tree
    finally:
        subprocess.run(("git", "-C", str(ROOT), "worktree", "remove", "--force", str(tree)), check=True)
