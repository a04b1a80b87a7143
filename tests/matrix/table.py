"""The matrix as a Markdown table: a row for each form, our columns and the peers'."""

from __future__ import annotations

import datetime
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import surgeon
from tests.matrix import peers
from tests.matrix.cases import Export
from tests.matrix.measure import OURS, TOOLS, Cell, measure
from tests.matrix.sample import Part

LONGEST_LIST = 40


@dataclass
class Row:
    """All cells of one form, by tool, and what there is no cell for."""

    cells: dict[str, list[Cell]] = field(default_factory=lambda: defaultdict(list))
    silent: list[Export] = field(default_factory=list)

    def sites(self, tool: str) -> tuple[int, int]:
        """Sites done and wanted over all exports whose original runs."""
        counted = [cell for cell in self.cells[tool] if cell.state != "original"]
        return sum(cell.done for cell in counted), sum(cell.wanted for cell in counted)


@dataclass
class Matrix:
    """What was measured: rows by form, and faults of our own as lines."""

    rows: dict[str, Row] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def add(self, export: Export, tools: Sequence[str]) -> None:
        """Measure every tool on one export."""
        row = self.rows.setdefault(export.form, Row())
        if export.path is None:
            row.silent.append(export)
            return
        for tool in tools:
            with tempfile.TemporaryDirectory() as folder:
                cell = measure(tool, export, Path(folder) / "out.onnx")
            row.cells[tool].append(cell)
            if tool == OURS and (fault := fault_of(cell)):
                self.faults.append(f"{export.name}: {fault}")


def fault_of(cell: Cell) -> str:
    """What is wrong with a cell of ours; nothing where all sites are done and proved and nothing else is touched."""
    if cell.done != cell.wanted:
        return f"{cell.done} of {cell.wanted} sites{'; ' * bool(cell.note)}{cell.note}"
    if cell.state == "extra":
        return "an op too many"
    if cell.state == "broken":
        return f"broken: {cell.note}"
    if cell.outcome not in ("proved", "unchanged") and cell.state != "original":
        return f"{cell.outcome}: {cell.note}"
    return ""


def run(chosen: Iterable[Part], tools: Sequence[str] = TOOLS, say: Callable[[str], None] = print) -> Matrix:
    """Measure the parts of the matrix; `say` is told of each that is done."""
    found = Matrix()
    for part in chosen:
        for export in part.exports():
            found.add(export, tools)
        say(part.name)
    return found


def lines(matrix: Matrix, title: str, short: bool = False) -> Iterator[str]:
    """The table, line by line.  short: operations without their forms, and none of what is left out."""
    tools = [tool for tool in TOOLS if any(row.cells[tool] for row in matrix.rows.values())]
    real = {name: row for name, row in matrix.rows.items() if any(row.sites(tool)[1] for tool in tools)}
    yield f"# {title}"
    yield ""
    yield f"{_versions()}; {datetime.date.today().isoformat()}."
    yield ""
    yield from INTRODUCTION
    yield ""
    yield f"| form | {' | '.join(tools)} | proved |"
    yield f"|---|{'---|' * len(tools)}---|"
    for operation, rows in _by_operation(real).items():
        yield _line(operation if short else f"**{operation}**", list(rows.values()), tools)
        if not short:
            yield from (_line(f"· {name.partition('.')[2]}", [row], tools) for name, row in rows.items())
    yield _line("**all**", list(real.values()), tools)
    yield ""
    yield from _without_sites(matrix, tools)
    if not short:
        yield from _left_out(matrix)


INTRODUCTION = (
    "Sites done / sites that torch ran, over exporters × opsets × dtypes.  A site is done where an op that stands for",
    "it is in the model in the end, the exporter's own (*native*) included.  An opset that has no such op is left out.",
    "*broken*: models that were not written, do not open, or answer otherwise than the original; their sites count as",
    "not done.  *extra*: an op more than there are sites.  *proved*: our rewritten models whose every site is proved.",
    "group_norm is rewritten for `--ep cuda`, since ONNX Runtime has no kernel for it on a CPU, and its node there,",
    "com.microsoft::GroupNorm, is proved by surgeon's own formula of it; that of a peer is taken on trust.",
)


def _line(title: str, rows: Sequence[Row], tools: Sequence[str]) -> str:
    cells = [_cell(rows, tool) for tool in tools]
    own = [cell for row in rows for cell in row.cells[OURS] if cell.state != "original"]
    fired = [cell for cell in own if cell.outcome != "unchanged"]
    native = sum(cell.native for cell in own)
    cells[tools.index(OURS)] += f" ({native} native)" if OURS in tools and native else ""
    return f"| {title} | {' | '.join(cells)} | {sum(cell.outcome == 'proved' for cell in fired)}/{len(fired)} |"


def _cell(rows: Sequence[Row], tool: str) -> str:
    done, wanted = (sum(part) for part in zip(*(row.sites(tool) for row in rows), strict=True))
    states = [cell.state for row in rows for cell in row.cells[tool]]
    notes = [f"{states.count(state)} {state}" for state in ("broken", "extra") if state in states]
    return f"{done}/{wanted}" + (f", {', '.join(notes)}" if notes else "")


def _by_operation(rows: dict[str, Row]) -> dict[str, dict[str, Row]]:
    found: dict[str, dict[str, Row]] = defaultdict(dict)
    for name, row in rows.items():
        found[name.partition(".")[0]][name] = row
    return found


def _without_sites(matrix: Matrix, tools: Sequence[str]) -> Iterator[str]:
    """What has no site: decoys, and operations that no op stands for at their opset."""
    yield f"| no site: must stay as it is | {' | '.join(tools)} |"
    yield f"|---|{'---|' * len(tools)}"
    for title, decoys in (("decoys", True), ("operations without an op at their opset", False)):
        reported = []
        for tool in tools:
            cells = [cell for row in matrix.rows.values() for cell in row.cells[tool] if not cell.wanted]
            states = [cell.state for cell in cells if cell.form.startswith("decoy.") == decoys]
            counts = [f"{states.count(state)} {state}" for state in ("broken", "extra") if state in states]
            reported.append(", ".join([f"{states.count('ok')} of {len(states)} right", *counts]))
        yield f"| {title} | {' | '.join(reported)} |"
    yield ""


def _left_out(matrix: Matrix) -> Iterator[str]:
    """Exports that do not run or were not made, and our own faults."""
    originals = [cell for row in matrix.rows.values() for cell in row.cells[OURS] if cell.state == "original"]
    yield f"Exports that ONNX Runtime does not run as the exporter wrote them, not counted above: {len(originals)}."
    yield from _listed(f"{cell.form}: {cell.note}" for cell in originals)
    silent = [export for row in matrix.rows.values() for export in row.silent]
    yield f"No export (the exporter raised): {len(silent)}."
    yield from _listed(f"{export.form} with {export.column.exporter}: {_plain(export.fault)}" for export in silent)
    for peer in peers.PEERS:
        cells = [cell for row in matrix.rows.values() for cell in row.cells[peer] if cell.state == "broken"]
        if cells:
            yield f"Broken by {peer}: {len(cells)}."
            yield from _listed(f"{cell.form}: {cell.note}" for cell in cells)
    if matrix.faults:
        yield f"Not full: {len(matrix.faults)}."
        yield from _listed(matrix.faults, len(matrix.faults))


def _plain(fault: str) -> str:
    """An exporter's words without the opset, so that equal ones are one line."""
    return re.sub(r" to ONNX opset version \d+", "", fault)


def _listed(items: Iterable[str], most: int = LONGEST_LIST) -> Iterator[str]:
    """Items once each with how often they came, as a list."""
    counts: dict[str, int] = {}
    for item in items:
        counts[item] = counts.get(item, 0) + 1
    yield ""
    for item, n in list(counts.items())[:most]:
        yield f"- {item.replace('|', '/')}" + f" ({n} times)" * (n > 1)
    if len(counts) > most:
        yield f"- and {len(counts) - most} more"
    yield ""


def _versions() -> str:
    return f"surgeon {surgeon.__version__}, {peers.versions()}"
