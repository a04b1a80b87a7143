"""Exports made at a batch of 1 with the batch freed, held against torch at 1, 2 and 7.

`python -m tests.edits.sizes` prints a row for each architecture and exporter.
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
from tests.edits.sized_exports import ARCHITECTURES, BATCHES, EXPORTERS, Export, export

NOT_WRITTEN = {("swin", "dynamo"): "the exporter fails"}
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


def right_at(path: Path, made: Export) -> dict[int, bool]:
    """By batch, whether all outputs are those of torch."""
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found = {}
    for batch in BATCHES:
        answer = session.run(None, {entry.name: made.fed[batch][entry.name] for entry in session.get_inputs()})
        pairs = list(zip(answer, made.wanted[batch], strict=False))
        found[batch] = bool(pairs) and all(
            one.shape == other.shape and np.allclose(one, other, rtol=RTOL, atol=ATOL) for one, other in pairs
        )
    return found


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.edits.sizes", description=__doc__)
    parser.add_argument("--match", default="", help="only exports whose name contains this")
    chosen = parser.parse_args()
    tally: Counter[str] = Counter()
    print("| export | outcome | 1 | 2 | 7 | |\n|---|---|---|---|---|---|")
    with TemporaryDirectory() as folder:
        for arch in ARCHITECTURES:
            for exporter in EXPORTERS:
                if chosen.match not in f"{arch}-{exporter}" or (arch, exporter) in NOT_WRITTEN:
                    continue
                row = check(arch, exporter, Path(folder))
                cells = ["" if not row.right else "yes" if row.right[batch] else "NO" for batch in BATCHES]
                tally[row.outcome] += 1
                tally["wrong"] += "NO" in cells
                print(f"| {arch}-{exporter} | {row.outcome} | {' | '.join(cells)} | {row.said} |", flush=True)
    print(f"\n{', '.join(f'{count} {name}' for name, count in tally.items())}")
    return int(tally["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
