"""The proof of a rule as blocks: a row for each pattern and target, reasons, and all failures."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from surgeon.authoring.rule_proof.result import InstanceOutcome, InstanceProof, RuleProof
from surgeon.display.blocks import (
    Block,
    Cell,
    Code,
    Document,
    Items,
    Note,
    Number,
    Section,
    Span,
    Table,
    outcome,
    toned,
)
from surgeon.display.content.comparison import under_assumptions
from surgeon.display.registry import reports
from surgeon.text import and_more, seconds_text

if TYPE_CHECKING:
    from onnx import ModelProto

SHOWN_REASONS, SHOWN_FAILURES = 12, 12
DTYPES = {"float32": "fp32", "float16": "fp16", "float64": "fp64", "bfloat16": "bf16"}


@reports(RuleProof, "proof")
def document(proof: RuleProof) -> Document:
    """The proof of one rule."""
    counts = ", ".join(f"{count:,} {name}" for name, count in proof.counts.items() if count) or "nothing was proved"
    words = under_assumptions(f"{counts} in {seconds_text(proof.seconds)}", proof.assumptions)
    details: list[Block] = [
        Note((Span(proof.rule, "strong"), f"  ({proof.where})")),
        _table(proof),
        *_reasons(proof.entries),
        *_failures(proof.faults),
        Note(f"nothing to prove: {proof.why_empty}" if proof.why_empty else "", "faint"),
        Note((outcome(proof.outcome.value), f"  {words}")),
    ]
    return Document(f"The proof of {proof.rule}", details)


def _table(proof: RuleProof) -> Table:
    groups: dict[tuple[str, str], list[InstanceProof]] = {}
    for entry in proof.entries:
        groups.setdefault((_pattern_name(entry), entry.target), []).append(entry)
    shown = [one for one in InstanceOutcome if any(entry.outcome is one for entry in proof.entries)]
    rows = []
    for (name, target), entries in groups.items():
        proved = [entry for entry in entries if entry.outcome is InstanceOutcome.PROVED]
        counts = Counter(entry.outcome for entry in entries)
        opsets, ranks = (entry.opset for entry in proved), (entry.arguments.rank for entry in proved)
        row: list[Cell] = [name, target, _span(opsets), " ".join(_dtypes(proved)) or "-", _span(ranks)]
        row += [Number(str(counts[one] or "-"), counts[one]) for one in shown]
        rows.append(toned(row, "bad" if any(entry.outcome.is_fault for entry in entries) else ""))
    heads = ("pattern", "target", "opsets", "dtypes", "ranks", *(one.value for one in shown))
    return Table("Instances by pattern and target", heads, rows, most=len(rows))


def _span(numbers: Iterable[int]) -> str:
    """The range of the numbers: "9-26"."""
    found = sorted(set(numbers))
    if not found:
        return "-"
    return str(found[0]) if len(found) == 1 else f"{found[0]}-{found[-1]}"


def _dtypes(entries: Sequence[InstanceProof]) -> list[str]:
    found = {entry.dtype for entry in entries}
    return [short for name, short in DTYPES.items() if name in found] + sorted(found.difference(DTYPES))


def _reasons(entries: Sequence[InstanceProof]) -> Iterator[Note]:
    """Why instances were declined or are unproved, the most frequent reasons first."""
    for outcome_of in (InstanceOutcome.DECLINED, InstanceOutcome.UNPROVED):
        counts = Counter((entry.dtype, entry.reason) for entry in entries if entry.outcome is outcome_of)
        by_reason: dict[str, list[tuple[str, int]]] = {}
        for (dtype, reason), count in counts.items():
            by_reason.setdefault(_plain(reason), []).append((dtype, count))
        ordered = sorted(by_reason.items(), key=lambda item: -sum(count for _, count in item[1]))
        for reason, found in ordered[:SHOWN_REASONS]:
            dtypes = ", ".join(dict.fromkeys(dtype for dtype, _ in found))
            yield Note(f"{outcome_of} {sum(count for _, count in found):,} ({dtypes}): {reason}", "faint")
        yield Note(and_more(len(ordered) - SHOWN_REASONS, "reasons").lstrip(), "faint")


def _plain(reason: str) -> str:
    """A reason without the name of its node, which differs between instances."""
    return re.sub(r" node with name '[^']*'| \(node:'[^']*'.*", "", reason).rstrip(".")


def _failures(faults: Sequence[InstanceProof]) -> Iterator[Section]:
    """All failures, one line for those that differ only in target, opset or dtype; the first model of each pattern."""
    patterns: dict[str, dict[tuple[str, str, str], list[InstanceProof]]] = {}
    for entry in faults:
        alike = patterns.setdefault(_pattern_name(entry), {})
        alike.setdefault((entry.outcome, str(entry.arguments), _unnumbered(entry.reason)), []).append(entry)
    for name, alike in patterns.items():
        blocks: list[Block] = [Items(list(map(failure_line, alike.values())), SHOWN_FAILURES)]
        model = next(iter(alike.values()))[0].model
        if model is not None:
            blocks.append(Section("the first of them:", [Code(_listing(model), "the model")], folded=False))
        yield Section((name,), blocks, folded=False)


def _listing(model: "ModelProto") -> list[str]:
    from onnx import printer

    return printer.to_text(model).splitlines()


def _pattern_name(entry: InstanceProof) -> str:
    return f"{entry.pattern} ({entry.variant})" if entry.variant else entry.pattern


def _unnumbered(reason: str) -> str:
    """A reason without its numbers, which differ between dtypes."""
    return re.sub(r"-?\d[\d.e+-]*", "#", reason)


def failure_line(entries: Sequence[InstanceProof]) -> str:
    """Equal failures: their sites, and the reason of the first."""
    first = entries[0]
    dtypes = ", ".join(dict.fromkeys(entry.dtype for entry in entries))
    targets = ", ".join(dict.fromkeys(entry.target for entry in entries))
    opsets = _span(entry.opset for entry in entries)
    where = f"{first.arguments or 'no inputs'} for {targets} at opset {opsets}, {dtypes}"
    return f"{first.outcome.upper()}  {where}: {first.reason.rstrip('.')}"
