"""The terminal output of a rule proof: a line per pattern and target, reasons, and all failures."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from surgeon.authoring.rule_proof.result import InstanceOutcome, InstanceProof, RuleProof
from surgeon.display.terminal.console import OUTCOME_STYLES, make_console
from surgeon.text import and_more, seconds_text

if TYPE_CHECKING:
    from rich.table import Table

SHOWN_REASONS, SHOWN_FAILURES = 12, 12
DTYPES = {"float32": "fp32", "float16": "fp16", "float64": "fp64", "bfloat16": "bf16"}


def print_rule_proof(proof: RuleProof, stream: TextIO) -> None:
    """Print the proof of one rule."""
    from rich.text import Text

    console = make_console(stream)
    console.print(Text.assemble((proof.rule, "bold"), f"  ({proof.where})"), soft_wrap=True)
    if proof.entries:
        console.print(_table(proof))
    for line in _reasons(proof.entries):
        console.print(line, soft_wrap=True, style="dim")
    for line in _failures(proof.faults):
        console.print(line, soft_wrap=True)
    if proof.why_empty:
        console.print(f"nothing to prove: {proof.why_empty}", soft_wrap=True, style="dim")
    word, style = OUTCOME_STYLES[proof.outcome.value]
    counts = ", ".join(f"{count:,} {name}" for name, count in proof.counts.items() if count)
    console.print(Text.assemble((word, style), f"  {counts or 'nothing was proved'} in {seconds_text(proof.seconds)}"))


def _table(proof: RuleProof) -> "Table":
    from rich.table import Table

    groups: dict[tuple[str, str, str], list[InstanceProof]] = {}
    for entry in proof.entries:
        groups.setdefault((entry.pattern, entry.variant, entry.target), []).append(entry)
    shown = [outcome for outcome in InstanceOutcome if any(entry.outcome is outcome for entry in proof.entries)]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("pattern", "target", "opsets", "dtypes", "ranks"):
        table.add_column(title, overflow="fold")
    for outcome in shown:
        table.add_column(outcome.value, justify="right")
    for (pattern, variant, target), entries in groups.items():
        proved = [entry for entry in entries if entry.outcome is InstanceOutcome.PROVED]
        counts = Counter(entry.outcome for entry in entries)
        ranges = (
            _span(entry.opset for entry in proved),
            " ".join(_dtypes(proved)) or "-",
            _span(entry.arguments.rank for entry in proved),
        )
        table.add_row(
            f"{pattern} ({variant})" if variant else pattern,
            target,
            *ranges,
            *(str(counts[outcome] or "-") for outcome in shown),
            style="red" if any(entry.outcome.is_fault for entry in entries) else "",
        )
    return table


def _span(numbers: Iterable[int]) -> str:
    """The range of the numbers: "9-26"."""
    found = sorted(set(numbers))
    if not found:
        return "-"
    return str(found[0]) if len(found) == 1 else f"{found[0]}-{found[-1]}"


def _dtypes(entries: Sequence[InstanceProof]) -> list[str]:
    found = {entry.dtype for entry in entries}
    return [short for name, short in DTYPES.items() if name in found] + sorted(found.difference(DTYPES))


def _reasons(entries: Sequence[InstanceProof]) -> Iterator[str]:
    """Why instances were declined or are unproved, the most frequent reasons first."""
    for outcome in (InstanceOutcome.DECLINED, InstanceOutcome.UNPROVED):
        counts = Counter((entry.dtype, entry.reason) for entry in entries if entry.outcome is outcome)
        by_reason: dict[str, list[tuple[str, int]]] = {}
        for (dtype, reason), count in counts.items():
            by_reason.setdefault(_plain(reason), []).append((dtype, count))
        ordered = sorted(by_reason.items(), key=lambda item: -sum(count for _, count in item[1]))
        for reason, found in ordered[:SHOWN_REASONS]:
            dtypes = ", ".join(dict.fromkeys(dtype for dtype, _ in found))
            yield f"{outcome} {sum(count for _, count in found):,} ({dtypes}): {reason}"
        if len(ordered) > SHOWN_REASONS:
            yield and_more(len(ordered) - SHOWN_REASONS, "reasons").lstrip()


def _plain(reason: str) -> str:
    """A reason without the name of its node, which differs between instances."""
    return re.sub(r" node with name '[^']*'| \(node:'[^']*'.*", "", reason).rstrip(".")


def _failures(faults: Sequence[InstanceProof]) -> Iterator[str]:
    """All failures, one line for those that differ only in target, opset or dtype; the first model of each pattern."""
    from onnx import printer

    patterns: dict[tuple[str, str], dict[tuple[str, str, str], list[InstanceProof]]] = {}
    for entry in faults:
        alike = patterns.setdefault((entry.pattern, entry.variant), {})
        alike.setdefault((entry.outcome, str(entry.arguments), _unnumbered(entry.reason)), []).append(entry)
    for (pattern, variant), alike in patterns.items():
        yield ""
        yield f"{pattern} ({variant})" if variant else pattern
        for entries in list(alike.values())[:SHOWN_FAILURES]:
            yield f"  {failure_line(entries)}"
        if len(alike) > SHOWN_FAILURES:
            yield f" {and_more(len(alike) - SHOWN_FAILURES)}"
        model = next(iter(alike.values()))[0].model
        if model is not None:
            yield "  the first of them:"
            yield from (f"    {line}" for line in printer.to_text(model).splitlines())
    if faults:
        yield ""


def _unnumbered(reason: str) -> str:
    """A reason without its numbers, which differ between dtypes."""
    return re.sub(r"\d[\d.e+-]*", "#", reason)


def failure_line(entries: Sequence[InstanceProof]) -> str:
    """Equal failures: where they occurred, and the reason of the first."""
    first = entries[0]
    dtypes = ", ".join(dict.fromkeys(entry.dtype for entry in entries))
    targets = ", ".join(dict.fromkeys(entry.target for entry in entries))
    opsets = _span(entry.opset for entry in entries)
    where = f"{first.arguments or 'no inputs'} for {targets} at opset {opsets}, {dtypes}"
    return f"{first.outcome.upper()}  {where}: {first.reason.rstrip('.')}"
