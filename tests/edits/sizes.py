"""Exports made at a batch of 1 with the batch freed, held against torch at 1, 2 and 7, and others with a length freed.

`python -m tests.edits.sizes` prints a row for each architecture and exporter; `--lengths` those of texts and pictures.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime as ort

import surgeon
from surgeon.edits import Free
from surgeon.errors import SurgeonError
from tests.edits.sized_exports import ARCHITECTURES, BATCHES, EXPORTERS, Arrays, Export, export
from tests.edits.sized_lengths import LENGTHS, answers

NOT_WRITTEN = {("swin", "dynamo"): "the exporter fails"}
WITH_BATCHES = [(arch, by) for arch in ARCHITECTURES for by in EXPORTERS if (arch, by) not in NOT_WRITTEN]
WITH_LENGTHS = [(arch, by) for arch, length in LENGTHS.items() for by in length.exporters]
RTOL, ATOL = 1e-3, 1e-4  # of two systems that add up in other orders


@dataclass(frozen=True)
class Row:
    """One export.  outcome: of the edit, "refused" where it was; said: how many nodes follow, or why not.

    right: by batch, whether ONNX Runtime answers as torch does.
    """

    arch: str
    exporter: str
    outcome: str
    said: str
    right: dict[int, bool]


def check(arch: str, exporter: str, folder: Path) -> Row:
    """Free the batch of one export and run it."""
    made = export(arch, exporter)
    (axis,) = set(made.axes.values())
    try:
        path, report = surgeon.edit(made.path, Free(axis, "batch"), output=folder / f"{arch}-{exporter}.onnx")
    except SurgeonError as refusal:
        return Row(arch, exporter, "refused", str(refusal), {})
    said = report.edits[0].said
    return Row(arch, exporter, report.outcome, said[1] if len(said) > 1 else "no node held it", right_at(path, made))


def check_length(arch: str, exporter: str, folder: Path) -> Row:
    """Free the length of one export and run it at others."""
    length, asked = LENGTHS[arch], answers(arch)
    free = Free(length.axis, "length", length.input)
    try:
        path, report = surgeon.edit(export(arch, exporter).path, free, output=folder / f"{arch}-{exporter}.onnx")
    except SurgeonError as refusal:
        return Row(arch, exporter, "refused", str(refusal), {})
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    right = {size: _is_right(session, fed, wanted) for size, (fed, wanted) in asked.items()}
    return Row(arch, exporter, report.outcome, report.check.reason, right)


def right_at(path: Path, made: Export) -> dict[int, bool]:
    """By batch, whether all outputs are those of torch."""
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return {batch: _is_right(session, made.fed[batch], made.wanted[batch]) for batch in BATCHES}


def _is_right(session: ort.InferenceSession, fed: Arrays, wanted: list[np.ndarray]) -> bool:
    answer = session.run(None, {entry.name: fed[entry.name] for entry in session.get_inputs()})
    return len(answer) == len(wanted) and all(
        one.shape == other.shape and np.allclose(one, other, rtol=RTOL, atol=ATOL)
        for one, other in zip(answer, wanted, strict=True)
    )


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.edits.sizes", description=__doc__)
    parser.add_argument("--match", default="", help="only exports whose name contains this")
    parser.add_argument("--lengths", action="store_true", help="free lengths of texts and heights of pictures instead")
    chosen = parser.parse_args()
    tally: Counter[str] = Counter()
    held = WITH_LENGTHS if chosen.lengths else WITH_BATCHES
    print("| export | outcome | as torch at | |\n|---|---|---|---|")
    with TemporaryDirectory() as folder:
        for arch, exporter in held:
            if chosen.match not in f"{arch}-{exporter}":
                continue
            row = (check_length if chosen.lengths else check)(arch, exporter, Path(folder))
            cells = [f"{size}{'' if right else ' NO'}" for size, right in row.right.items()]
            tally[row.outcome] += 1
            tally["wrong"] += not all(row.right.values())
            print(f"| {arch}-{exporter} | {row.outcome} | {', '.join(cells)} | {row.said} |", flush=True)
    print(f"\n{', '.join(f'{count} {name}' for name, count in tally.items())}")
    return int(tally["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
