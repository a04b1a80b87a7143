"""The tables: what each converter makes of each group, and of models with a planted activation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from glob import escape
from itertools import combinations
from pathlib import Path
from statistics import median

import onnx

import surgeon
from surgeon.errors import CheckFailed
from tests.halves.corpus import Sample, corpus, planted
from tests.halves.judging import ORDER, judged
from tests.halves.tools import PEERS

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Cell:
    """What a converter made of a model.

    engine: what TensorRT-RTX did with it, of "builds", "parses" and "refused"; empty where it was not asked.
    """

    what: str
    moved: float
    casts: int | None
    kept: int | None
    seconds: float
    megabytes: float
    engine: str = ""
    stretches: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asked:
    """peers: the Python of an environment that holds other converters, where that is not this one.  build: one in so
    many models is built by TensorRT-RTX, all being parsed; 0 for none.  log: a file of what was found, one line each,
    which a later run of the same does not find out again.
    """

    peers: str = sys.executable
    build: int = 0
    log: Path | None = None

    def known(self) -> dict[tuple[str, str], Cell]:
        """What the log says, by converter and model."""
        if self.log is None or not self.log.exists():
            return {}
        rows = [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]
        cells = ({**row["cell"], "stretches": tuple(row["cell"]["stretches"])} for row in rows)
        return {(row["tool"], row["model"]): Cell(**cell) for row, cell in zip(rows, cells, strict=True)}

    def note(self, tool: str, model: str, cell: Cell) -> None:
        """Put a line into the log."""
        if self.log is not None:
            with self.log.open("a", encoding="utf-8") as file:
                print(json.dumps({"tool": tool, "model": model, "cell": asdict(cell)}), file=file)


class Converter:
    """One converter, in a process that has one more for each model."""

    def __init__(self, tool: str, folder: Path, asked: Asked) -> None:
        self._tool, self._folder, self._asked = tool, folder, asked
        self._known = asked.known()
        python = asked.peers if tool in PEERS else sys.executable
        environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
        command = [python, str(HERE / "tools.py"), tool]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment, bufsize=1)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def cell(self, sample: Sample, *, builds: bool) -> Cell:
        """What it makes of a model.  builds: whether an engine is to be built of that."""
        cell = self._known.get((self._tool, sample.name))
        if cell is None:
            cell = self._made(sample, builds)
            self._asked.note(self._tool, sample.name, cell)
            print(f"  {self._tool}: {sample.name}: {cell}", file=sys.stderr, flush=True)
        return cell

    def _made(self, sample: Sample, builds: bool) -> Cell:
        target = self._folder / f"{self._tool}.onnx"
        for old in self._folder.glob(f"{self._tool}.onnx*"):
            old.unlink()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"source": str(sample.path), "target": str(target)}), file=self._process.stdin, flush=True)
        data = json.loads(self._process.stdout.readline())
        what, moved = ("crashed", 0.0) if data["why"] else judged(sample.path, target)
        if what not in ("right", "untold"):
            line = f"  {self._tool}: {sample.name}: {data['why'] or what} {moved:.3g}"
            print(line[:300], file=sys.stderr, flush=True)
        short = next((name for name in ORDER if what.startswith(name)), what)
        is_asked = self._asked.build and self._tool == "surgeon" and not data["why"]
        engine = engine_of(sample.path, target, builds) if is_asked else ""
        if engine == "lost":
            print(f"  {self._tool}: {sample.name}: TensorRT-RTX takes the original alone", file=sys.stderr, flush=True)
        numbers = data.get("casts"), data.get("kept"), data["seconds"], data["megabytes"]
        return Cell(short, moved, *numbers, engine, tuple(data.get("stretches", ())))


def run(
    tools: Sequence[str], samples: Iterable[Sample], folder: Path, asked: Asked
) -> tuple[list[Sample], dict[str, list[Cell]]]:
    """All converters on all models: the models, and what each converter made of them, in order."""
    seen: list[Sample] = []
    cells: dict[str, list[Cell]] = {tool: [] for tool in tools}
    with ExitStack() as stack:
        converters = {tool: stack.enter_context(closing(Converter(tool, folder, asked))) for tool in tools}
        for place, sample in enumerate(samples):
            seen.append(sample)
            for tool, converter in converters.items():
                cells[tool].append(converter.cell(sample, builds=bool(asked.build) and place % asked.build == 0))
    return seen, cells


def engine_of(source: Path, made: Path, builds: bool) -> str:
    """Whether TensorRT-RTX takes what was converted: "builds", "parses", "lost" where it takes the original alone, or
    "refused" as that is.
    """
    word = "builds" if builds else "parses"
    if not any(item.stops for item in surgeon.check(made, "tensorrt", build=builds)):
        return word
    return "refused" if any(item.stops for item in surgeon.check(source, "tensorrt", build=builds)) else "lost"


def tables(
    folder: Path, tools: Sequence[str], groups: tuple[str, ...], asked: Asked, *, each: int, most: float, plant: int
) -> Iterator[str]:
    """All tables in Markdown, line by line."""
    every = (sample for sample in corpus(groups, each=each) if sample.path.stat().st_size <= most)
    samples, cells = run(tools, every, folder, asked)
    reported = [place for place in range(len(samples)) if any(made[place].what != "untold" for made in cells.values())]
    yield f"## {len(samples)} models of float32, of which {len(reported)} run on made inputs"
    yield ""
    yield f"| converter | {' | '.join(ORDER)} | Casts | kept nodes | time |"
    yield f"|---|{'--:|' * (len(ORDER) + 3)}"
    base = cells.get("surgeon") or next(iter(cells.values()))
    for tool, made in cells.items():
        counts = Counter(made[place].what for place in reported)
        both = [place for place in reported if made[place].what == base[place].what == "right"]
        casts = sum(made[place].casts or 0 for place in both), sum(base[place].casts or 0 for place in both)
        kept = sum(made[place].kept or 0 for place in both) if made[0].kept is not None else None
        ratio = median(made[place].seconds / max(base[place].seconds, 1e-3) for place in both) if both else 0.0
        yield (
            f"| {tool} | {' | '.join(str(counts[name]) for name in ORDER)} | {casts[0]} of {casts[1]} | "
            f"{'' if kept is None else kept} | {ratio:.2f}x |"
        )
    yield ""
    yield from _fewest(cells)
    stretches = Counter(outcome for cell in base for outcome in cell.stretches)
    outcomes = ", ".join(f"{count} {name}" for name, count in stretches.items())
    yield f"Stretches of surgeon's, equal ones once: {outcomes}."
    engines = Counter(cell.engine for cell in base if cell.engine)
    told_of = ", ".join(f"{count} {name}" for name, count in engines.items())
    yield f"TensorRT-RTX with surgeon's: {told_of or 'not asked'}."
    yield ""
    yield from _by_group(samples, cells)
    if plant:
        yield from _planted(folder, plant)


def _fewest(cells: dict[str, list[Cell]]) -> Iterator[str]:
    """Model by model: where surgeon and another are right, who puts in fewer Casts."""
    base = cells.get("surgeon", [])
    for tool, made in cells.items():
        both = [(one, two) for one, two in zip(base, made, strict=False) if one.what == two.what == "right"]
        gaps = [(one.casts or 0) - (two.casts or 0) for one, two in both]
        counts = Counter((gap > 0) - (gap < 0) for gap in gaps)
        if tool != "surgeon" and both:
            yield f"Of {len(both)} that {tool} has right too, surgeon puts fewer Casts into {counts[-1]}, as many into"
            yield f"{counts[0]} and more into {counts[1]}."
    yield ""


def _by_group(samples: Sequence[Sample], cells: dict[str, list[Cell]]) -> Iterator[str]:
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for place, sample in enumerate(samples):
        groups[sample.group].append(place)
    yield f"| right of | {' | '.join(f'{name} ({len(places)})' for name, places in groups.items())} |"
    yield f"|---|{'--:|' * len(groups)}"
    for tool, made in cells.items():
        counts = [str(sum(made[place].what == "right" for place in places)) for places in groups.values()]
        yield f"| {tool} | {' | '.join(counts)} |"
    yield ""


def _planted(folder: Path, most: int) -> Iterator[str]:
    """Whether an activation of 1e5 is found, and whether fewer nodes than are kept for it would do."""
    yield f"## An activation of 1e5 in {most} models"
    yield ""
    yield "| model | kept | without it | fewest that hold | right |"
    yield "|---|--:|--:|--:|---|"
    for sample, plain in planted(folder / "planted", most):
        target, base = folder / "planted.onnx", kept_of(plain, folder / "plain.onnx")
        kept = kept_of(sample.path, target)
        what = "refused" if kept is None else judged(sample.path, target)[0]
        least = "" if base is None else fewest(sample, base, folder / "tried.onnx")
        yield f"| {sample.name} | {told(kept)} | {told(base)} | {least} | {what} |"


def told(kept: Sequence[str] | None) -> str:
    return "refused" if kept is None else str(len(kept))


def kept_of(source: Path, target: Path, keep: Sequence[str] = ("auto",)) -> list[str] | None:
    """The nodes that a conversion keeps, None where it is refused."""
    try:
        _, report = surgeon.convert(source, output=target, keep=keep, force=True)
    except CheckFailed:
        return None
    return [item.node for item in report.kept]


def fewest(sample: Sample, base: Sequence[str], target: Path) -> int:
    """How many nodes around the planted tensor have to be kept beside those of the model without it: by trying all."""
    nodes = onnx.load(sample.path, load_external_data=False).graph.node
    near = {name for node in nodes if node.name.endswith("/planted") for name in (*node.input, *node.output)}
    around = [node for node in nodes if near.intersection((*node.input, *node.output)) and node.op_type != "Constant"]
    always = [f"name:{escape(name)}" for name in base]
    for count in range(len(around)):
        for chosen in combinations(around, count):
            more = [f"name:{escape(node.output[0])}" for node in chosen]
            if kept_of(sample.path, target, [*always, *more]) is not None:
                return count
    return len(around)
