"""Surgeon beside other tools on the same cuts and merges: done, right, bytes written, time and memory.

A result is right if it takes and gives what was asked for, by those names, and ONNX Runtime computes from the same
inputs what the whole computes (in a merge: what the two do, one after the other).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from surgeon.file.model import Model
from surgeon.pipeline.editing.draft import ModelDraft
from tests.edits.corpus import Arrays, Task, cuts, merges, weight_of
from tests.edits.tools import MERGING, TOOLS

HERE = Path(__file__).resolve().parent
RTOL, ATOL = 1e-3, 1e-4
CLASHED = re.compile(r"^[ab]_|_1$|_sg[12]$")  # what tools put to names of both


@dataclass(frozen=True)
class Cell:
    """What a tool made of a task.  right: empty, or why it is not.  bytes: of all files written."""

    why: str
    right: str
    seconds: float
    megabytes: float
    bytes: int


def compare(folder: Path, tools: Sequence[str], *, short: bool, libraries: str = "") -> Iterator[str]:
    """The tables, line by line."""
    for kind, tasks in (
        ("cuts", list(cuts(folder / "cuts", short=short))),
        ("merges", list(merges(folder / "merges", short=short))),
    ):
        wanted = [expected(task) for task in tasks]
        able = [tool for tool in tools if kind == "cuts" or tool in MERGING]
        cells = {tool: list(run(tool, tasks, wanted, folder / "out", libraries)) for tool in able}
        if cells:
            yield from lines(kind, tasks, cells)


def run(
    tool: str, tasks: Sequence[Task], wanted: Sequence[Arrays], out: Path, libraries: str
) -> Iterator[Cell]:
    """One tool on all tasks, in order."""
    paths = os.pathsep.join(filter(None, [str(HERE.parents[1]), libraries]))
    environment = {**os.environ, "PYTHONPATH": paths, "TMPDIR": str(out.parent)}
    command = [sys.executable, str(HERE / "tools.py"), tool]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, bufsize=1
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for task, answers in zip(tasks, wanted, strict=True):
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
            print(json.dumps(job_of(task, out / "made.onnx")), file=process.stdin, flush=True)
            data = json.loads(process.stdout.readline() or '{"why": "it does not start", "seconds": 0, "megabytes": 0}')
            right = "" if data["why"] else wrong(task, out / "made.onnx", answers)
            size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
            yield Cell(data["why"], right, data["seconds"], data["megabytes"], size)
            if data["why"] or right:
                print(f"  {tool}: {task.name}: {data['why'] or 'wrong: ' + right}", file=sys.stderr, flush=True)
        process.stdin.close()
    shutil.rmtree(out, ignore_errors=True)


def job_of(task: Task, target: Path) -> dict[str, Any]:
    """A task as the tools read it."""
    job: dict[str, Any] = {"kind": "cut" if task.is_cut else "merge", "source": str(task.source), "target": str(target)}
    job["external"] = task.external
    if not task.is_cut:
        return job | {"second": str(task.second), "connect": task.connect}
    with Model.open(task.source) as model:
        draft = ModelDraft(model)
        facts = {name: draft.facts(name).type.tensor_type for name in (*task.froms, *task.tos)}
    words = {
        name: (onnx.TensorProto.DataType.Name(fact.elem_type), [dim.dim_value or 1 for dim in fact.shape.dim])
        for name, fact in facts.items()
    }
    return job | {"froms": list(task.froms), "tos": list(task.tos), "types": words}


def expected(task: Task) -> Arrays:
    """The values of the ends of a cut, and what a merge gives, as ONNX Runtime has them from what there was before."""
    if task.external:
        if not task.is_cut:
            return {}
        (source,), (end,) = task.froms, task.tos
        return {**task.fed, end: task.fed[source] @ weight_of(task.fed[source].shape[1])}
    if task.is_cut:
        model = onnx.load(task.source)
        known = {value.name for value in model.graph.output}
        made = {name for node in model.graph.node for name in node.output}
        asked = dict.fromkeys((*task.froms, *task.tos))
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in asked if name in made - known)
        return {**task.fed, **answer(model.SerializeToString(), task.fed)}
    held = dict(task.fed)
    first = answer(task.source.read_bytes(), held)
    assert task.second is not None
    feeds = {**held, **first, **{name: first[source] for source, name in task.connect.items()}}
    last = answer(task.second.read_bytes(), feeds)
    return {f"first {name}": array for name, array in first.items() if name not in task.connect} | {
        f"second {name}": array for name, array in last.items()
    }


def answer(model: bytes, feeds: Arrays) -> Arrays:
    """What a model gives."""
    session = opened(model)
    names = [value.name for value in session.get_outputs()]
    fed = {value.name: feeds[value.name] for value in session.get_inputs()}
    return dict(zip(names, session.run(names, fed), strict=True))


def opened(model: bytes | Path) -> ort.InferenceSession:
    """A model under ONNX Runtime, which keeps its warnings."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(str(model) if isinstance(model, Path) else model, options, ["CPUExecutionProvider"])


def wrong(task: Task, path: Path, wanted: Arrays) -> str:
    """Why a result is not right, empty where it is."""
    if not path.exists():
        return "nothing is written"
    reader, writer = os.pipe()
    child = os.fork()  # what a tool wrote may end the process that runs it
    if not child:
        try:
            why = wrong_cut(task, path, wanted) if task.is_cut else wrong_merge(task, path, wanted)
        except BaseException as error:  # noqa: BLE001  # whatever goes wrong is said
            why = f"{type(error).__name__}: {error}"
        os.write(writer, why.encode()[:400])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        why = stream.read().decode("utf-8", "replace")
    _, status = os.waitpid(child, 0)
    return why if not status else f"the process that runs it ended with {status}"


def wrong_cut(task: Task, path: Path, wanted: Arrays) -> str:
    """The same of a cut, in a process of its own."""
    model = onnx.load(path, load_external_data=False)
    ends = [value.name for value in model.graph.input], [value.name for value in model.graph.output]
    stored = {tensor.name for tensor in model.graph.initializer}
    if sorted(set(ends[0]) - stored) != sorted(task.froms) or sorted(ends[1]) != sorted(task.tos):
        return f"it goes from {ends[0]} to {ends[1]}"
    session = opened(path)
    found = session.run(list(task.tos), {name: wanted[name] for name in task.froms})
    return differing(zip(task.tos, found, strict=True), wanted)


def wrong_merge(task: Task, path: Path, wanted: Arrays) -> str:
    """The same of a merge; of one that is too large to be run, whether all weights are there."""
    model = onnx.load(path, load_external_data=False)
    if task.external:
        assert task.second is not None
        before = [onnx.load(one, load_external_data=False).graph for one in (task.source, task.second)]
        count = sum(len(graph.initializer) for graph in before)
        sizes = sum(entry.stat().st_size for entry in path.parent.rglob("*") if entry.is_file())
        needed = sum(len(graph.initializer) * np.prod(graph.initializer[0].dims) * 4 for graph in before)
        whole = len(model.graph.initializer) == count and sizes >= needed
        return "" if whole else f"{len(model.graph.initializer)} of {count} weights, {sizes:,} bytes"
    session = opened(path)
    feeds = {}
    for value in session.get_inputs():
        feeds[value.name] = task.fed[value.name if value.name in task.fed else CLASHED.sub("", value.name)]
    names = [value.name for value in session.get_outputs()]
    found = session.run(names, feeds)
    if len(found) != len(wanted):
        return f"it gives {names}"
    left = dict(wanted)
    for name, array in zip(names, found, strict=True):
        plain = {name, CLASHED.sub("", name)}
        fits = [key for key in left if key.partition(" ")[2] in plain and not differing([(key, array)], left)]
        if not fits:
            return f"{name} is not what either gives"
        del left[fits[0]]
    return ""


def differing(found: Any, wanted: Arrays) -> str:
    """The first value that is another."""
    for name, array in found:
        if array.shape != wanted[name].shape or not np.allclose(array, wanted[name], RTOL, ATOL, equal_nan=True):
            return f"{name} is another"
    return ""


def lines(kind: str, tasks: Sequence[Task], cells: dict[str, list[Cell]]) -> Iterator[str]:
    """A table in Markdown: what each tool did of each group, and beside surgeon's, what it took."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for place, task in enumerate(tasks):
        groups[task.group].append(place)
    heads = [f"{group} ({len(places)})" for group, places in groups.items()]
    yield f"## {len(tasks)} {kind}: right of each group; done; beside surgeon without its proof"
    yield ""
    yield f"| tool | {' | '.join(heads)} | done | right | bytes written | time | memory |"
    yield f"|---|{'--:|' * (len(heads) + 5)}"
    base = cells.get("surgeon-no-check") or next(iter(cells.values()))
    for tool, made in cells.items():
        good = [not cell.why and not cell.right for cell in made]
        done = sum(not cell.why for cell in made)
        both = [place for place in range(len(tasks)) if good[place] and not base[place].why and not base[place].right]
        reported = [f"{sum(good[place] for place in places)}" for places in groups.values()]
        if both:
            size = sum(made[place].bytes for place in both) / max(sum(base[place].bytes for place in both), 1)
            time = median(made[place].seconds / max(base[place].seconds, 1e-4) for place in both)
            most = max(made[place].megabytes for place in both)
            took = [f"{size:.2f}x", f"{time:.2f}x", f"{most:,.0f} MB"]
        else:
            took = ["", "", ""]
        yield f"| {tool} | {' | '.join(reported)} | {done} | {sum(good)} | {' | '.join(took)} |"
    yield ""


EVERY = tuple(TOOLS)
