"""The tables: what each converter makes of each group, and of models with a planted activation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.halves.corpus import Sample, corpus, planted
from tests.halves.judging import ORDER, judged

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Cell:
    """What a converter made of a model."""

    what: str
    moved: float
    casts: int | None
    kept: int | None
    seconds: float
    megabytes: float
    by: tuple[tuple[str, str, str], ...]


def run(tool: str, samples: Sequence[Sample], folder: Path, libraries: str) -> Iterator[Cell]:
    """One converter on all models, in order."""
    paths = os.pathsep.join(filter(None, [str(HERE.parents[1]), libraries]))
    command = [sys.executable, str(HERE / "tools.py"), tool]
    environment = {**os.environ, "PYTHONPATH": paths}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, bufsize=1
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for sample in samples:
            target = folder / f"{tool}.onnx"
            for old in folder.glob(f"{tool}.onnx*"):
                old.unlink()
            print(json.dumps({"source": str(sample.path), "target": str(target)}), file=process.stdin, flush=True)
            told = json.loads(process.stdout.readline())
            what, moved = ("crashed", 0.0) if told["why"] else judged(sample.path, target)
            if what not in ("right", "untold"):
                print(f"  {tool}: {sample.name}: {told['why'] or what} {moved:.3g}"[:300], file=sys.stderr, flush=True)
            short = next((name for name in ORDER if what.startswith(name)), what)
            by = tuple((str(a), str(b), str(c)) for a, b, c in told.get("by", ()))
            yield Cell(short, moved, told.get("casts"), told.get("kept"), told["seconds"], told["megabytes"], by)
        process.stdin.close()


def tables(
    folder: Path, tools: Sequence[str], groups: tuple[str, ...], *, short: bool, libraries: str
) -> Iterator[str]:
    """All tables in Markdown, line by line."""
    samples = list(corpus(groups, short=short))
    cells = {tool: list(run(tool, samples, folder, libraries)) for tool in tools}
    told = [place for place in range(len(samples)) if any(made[place].what != "untold" for made in cells.values())]
    yield f"## {len(samples)} models of float32, of which {len(told)} run on made inputs"
    yield ""
    yield f"| converter | {' | '.join(ORDER)} | Casts | kept nodes | time |"
    yield f"|---|{'--:|' * (len(ORDER) + 3)}"
    base = cells.get("surgeon") or next(iter(cells.values()))
    for tool, made in cells.items():
        counts = Counter(made[place].what for place in told)
        both = [place for place in told if made[place].what == base[place].what == "right"]
        casts = sum(made[place].casts or 0 for place in both), sum(base[place].casts or 0 for place in both)
        kept = sum(made[place].kept or 0 for place in both) if made[0].kept is not None else None
        ratio = median(made[place].seconds / max(base[place].seconds, 1e-3) for place in both) if both else 0.0
        yield (
            f"| {tool} | {' | '.join(str(counts[name]) for name in ORDER)} | {casts[0]} of {casts[1]} | "
            f"{'' if kept is None else kept} | {ratio:.2f}x |"
        )
    yield ""
    yield from _by_group(samples, cells)
    yield from _planted(folder, short=short)


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


def _planted(folder: Path, *, short: bool) -> Iterator[str]:
    """Whether an activation of 1e5 is found, and what else is kept for it."""
    samples = list(planted(folder / "planted", short=short))
    made = list(run("surgeon", samples, folder, ""))
    whys = ("range", "weight")  # the factor itself may be beyond half precision
    found = [sum(kind in whys and "planted" in name for name, _, kind in cell.by) == 2 for cell in made]
    more = [sum(kind in ("range", "error") and "planted" not in name for name, _, kind in cell.by) for cell in made]
    yield f"## An activation of 1e5 in {len(samples)} models"
    yield ""
    yield f"Found and kept: {sum(found)}; right: {sum(cell.what == 'right' for cell in made)}; nodes kept by range or"
    yield f"error beside the two around it: {sum(more)}."
