"""What came of a model before and after each tool, and a journal of it, so that a run that broke off goes on."""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import surgeon
from surgeon.errors import SurgeonError, UsageError
from tests.tensorrt_prepared.models import Sample
from tests.tensorrt_prepared.tools import LIMIT, OURS, TOOLS, within

NONE: Mapping[str, int] = {}


@dataclass
class Taken:
    """What TensorRT makes of a model.

    built: whether it builds it, None where it was not asked.  found: op and reason of all that it refuses.  failed: why
    a tool made no model, "" where it did.  equal: whether the outputs are the original's, "proved", "unproved" or
    "failed" as `surgeon.compare` has it, "" where nobody asked.  sizes: of the free dimensions of the engine.
    """

    parsed: bool = False
    built: bool | None = None
    found: list[list[str]] = field(default_factory=list)
    failed: str = ""
    equal: str = ""
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def is_taken(self) -> bool:
        """Whether nothing stands against it, as far as was asked."""
        return self.parsed and self.built is not False


@dataclass
class Row:
    """A model, before and after each tool; fault: why it is none, "" where it is one."""

    name: str
    fault: str = ""
    before: Taken = field(default_factory=Taken)
    after: dict[str, Taken] = field(default_factory=dict)

    def is_broken(self, tool: str) -> bool:
        """Whether something that TensorRT took is not taken any more."""
        made = self.after[tool]
        return (self.before.parsed and not made.parsed) or (self.before.built is True and not made.built)


def taken(model: Any, build: bool, dims: Mapping[str, int] = NONE) -> Taken:
    """What TensorRT makes of a model, of these sizes where it has such."""
    try:
        findings = surgeon.check(model, "tensorrt", build=build, dims=dims if build else {})
    except UsageError:
        findings = surgeon.check(model, "tensorrt", build=build)
    found = [[one.op, one.reason] for one in findings if one.stops]
    parsed = all(one.kind == "build" for one in findings if one.stops)
    sizes = {} if findings.runtime is None else {name: best for name, (_, best, _) in findings.runtime.sizes.items()}
    return Taken(parsed, not found if build else None, found, sizes=sizes)


def row_of(sample: Sample, tools: list[str], *, build: bool, compare: bool) -> Row:
    """Ask TensorRT about a model, and about what each tool makes of it."""
    row = Row(sample.name)
    try:
        row.before = taken(sample.source, build, sample.dims)
    except SurgeonError as error:
        row.fault = str(error)
        return row
    for tool in tools:
        row.after[tool] = _after(tool, sample, build, compare)
    return row


def _after(tool: str, sample: Sample, build: bool, compare: bool) -> Taken:
    with tempfile.TemporaryDirectory() as folder:
        source = sample.source
        try:
            if sample.edits and tool == OURS:
                source = Path(folder) / "edited.onnx"
                surgeon.edit(sample.source, sample.edits, output=source, check="none")
            made = within(LIMIT, TOOLS[tool], source, Path(folder))
            found = taken(made, build, sample.dims)
            found.equal = _compared(source, made, sample.dims) if compare else ""
        except Exception as error:  # noqa: BLE001  peers raise anything
            return Taken(failed=f"{type(error).__name__}: {str(error)[:120]}")
    return found


def _compared(source: Any, made: Any, dims: Mapping[str, int]) -> str:
    """Whether two models answer alike under ONNX Runtime."""
    try:
        return str(surgeon.compare(source, made, dims=dims).outcome.value)
    except UsageError:  # a size that an edit has fixed
        return str(surgeon.compare(source, made).outcome.value)


class Journal:
    """The rows in a file, one a line as JSON; those of an earlier run are there.

    path: None for none.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        self._rows = {row.name: row for row in map(_read, lines)}

    def get(self, name: str) -> Row | None:
        """The row of a model of an earlier run."""
        return self._rows.get(name)

    def add(self, row: Row) -> None:
        """Note a row."""
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(f"{json.dumps(asdict(row))}\n")


def _read(line: str) -> Row:
    data = json.loads(line)
    after = {tool: Taken(**made) for tool, made in data["after"].items()}
    return Row(data["name"], data["fault"], Taken(**data["before"]), after)
