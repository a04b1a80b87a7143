"""One cell: what a tool made of one export, held against what torch ran."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import surgeon
from surgeon.errors import SurgeonError
from tests.matrix import operations, peers
from tests.matrix.cases import Export
from tests.matrix.operations import OPERATIONS

OURS = "surgeon"
TOOLS = (OURS, *peers.PEERS)


@dataclass(frozen=True)
class Cell:
    """One tool on one export.

    done, wanted: sites; wanted is what torch ran, less operations that no op stands for at this opset.  native: sites
    that the exporter wrote as one op itself.  state: "ok", "broken" (no file, no valid model, other numbers), "extra"
    (more ops than sites, or a decoy fused) or "original" (the exporter's model does not run itself).  outcome: that of
    our report, empty for peers.  note: the reason, where there is one.
    """

    form: str
    done: int
    wanted: int
    native: int
    state: str
    outcome: str = ""
    note: str = ""

    @property
    def full(self) -> bool:
        """All sites done, nothing broken."""
        return self.done == self.wanted and self.state in ("ok", "original")


@cache
def runs(path: Path) -> str:
    """Why the exporter's own model does not run; nothing where it does."""
    return peers.opens(path)


def measure(tool: str, export: Export, output: Path) -> Cell:
    """Run a tool on an export, let it write to `output`, and compare.  The export must have a file."""
    assert export.path is not None
    outcome, note = _ours(export, output) if tool == OURS else ("", peers.run(tool, export.path, output))
    return judge(export, output, outcome, note)


def _ours(export: Export, output: Path) -> tuple[str, str]:
    """Our rewrite: the outcome, and the first reason to doubt it."""
    assert export.path is not None
    ep = operations.provider(export.truth)
    try:
        _, report = surgeon.rewrite(
            export.path, operations.rules(), output=output, ep=ep, check="sites", keep_going=True
        )
    except SurgeonError as error:
        return "error", str(error)
    gone = [f"{site.rule} rolled back: {site.reason}" for site in report.rolled_back]
    return report.outcome, next(iter([*gone, *report.doubts]), "")


def judge(export: Export, output: Path, outcome: str, note: str) -> Cell:
    """What the tool's file shows."""
    assert export.path is not None
    wanted = operations.wanted(export.form, export.truth, export.column.opset)
    before = peers.nodes_of(export.path)
    found = {kind: OPERATIONS[kind].done(before) for kind in wanted}
    native = sum(_done(n, found[kind]) for kind, n in wanted.items())
    total = sum(wanted.values())
    fault = runs(export.path)
    if not output.exists():
        state = "original" if fault else "broken"
        return Cell(export.form, 0, total, native, state, outcome, fault or note or "no file")
    after = peers.nodes_of(output)
    counts = {kind: OPERATIONS[kind].done(after) for kind in wanted}
    done = sum(_done(n, counts[kind]) for kind, n in wanted.items())
    if fault:
        return Cell(export.form, done, total, native, "original", outcome, fault)
    wrong = _wrong(export.path, output, is_run_here=not _is_for_a_gpu(export, outcome))
    if wrong:
        return Cell(export.form, 0, total, native, "broken", outcome, wrong)
    extra = any(counts[kind] > max(n, found[kind]) for kind, n in wanted.items())
    if not export.truth:
        extra = operations.targets(after) > operations.targets(before)
    return Cell(export.form, done, total, native, "extra" if extra else "ok", outcome, note)


def _is_for_a_gpu(export: Export, outcome: str) -> bool:
    """Whether an op without a kernel here is no fault: a GPU has it, and a peer, or our own proof, is trusted in it."""
    return operations.provider(export.truth) is not None and outcome in ("proved", "")


def _done(wanted: int, ops: int) -> int:
    """Sites done where so many ops stand; more than there are sites are parts of one (two Clips of one ReLU6)."""
    return ops if ops <= wanted else 0


def _wrong(original: Path, other: Path, *, is_run_here: bool = True) -> str:
    """How the other model fails or differs from the original, by our own model check; nothing where it does not.

    is_run_here: the CPU is to run it, so that an op without a kernel here is a fault.
    """
    if original.read_bytes() == other.read_bytes():
        return ""
    fault = peers.opens(other) if is_run_here else ""
    if fault:
        return f"does not open: {fault}"
    try:
        found = surgeon.compare(original, other)
    except SurgeonError as error:
        return str(error)
    return f"failed: {found.reason}" if found.outcome.value == "failed" else ""
