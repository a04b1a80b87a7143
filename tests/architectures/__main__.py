"""`python -m tests.architectures --table [--sample]`: sites found in every architecture beside what torch ran."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.architectures import cases, exporting
from tests.architectures.checking import Row, check

HEAD = ("export", "torch ran", "one node already", "found", "missed", "sites", "whole model", "seconds")


def main() -> int:
    """Command line: make the exports, or hold the sites found in them against what torch ran."""
    parser = argparse.ArgumentParser(prog="python -m tests.architectures", description=main.__doc__)
    parser.add_argument("--table", action="store_true", help="rewrite each export and print what was found")
    parser.add_argument("--sample", action="store_true", help="the fixed sample instead of every case")
    parser.add_argument("--match", default="", help="only the cases whose name contains this")
    parser.add_argument("--misses", action="store_true", help="tell why what was missed was not found")
    options = parser.parse_args()
    chosen = [case for case in (cases.sample() if options.sample else cases.cases()) if options.match in case.name]
    if not options.table:
        for case in chosen:
            started = time.perf_counter()
            path, _ = exporting.export(case)
            print(f"{case.name}: {path} ({time.perf_counter() - started:.1f} s)", flush=True)
        return 0
    wrong = 0
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for case in chosen:
            row = check(case, Path(folder) / "out.onnx")
            wrong += not row.good
            print(line(row), flush=True)
            for note in notes(row) if options.misses else ():
                print(f"    {note}", flush=True)
    print(f"\n{len(chosen)} exports, {wrong} wrong")
    return int(wrong > 0)


def line(row: Row) -> str:
    """One row of the table."""
    report = row.report
    proved = sum(site.outcome == "proved" for site in report.sites)
    sites = f"{proved} proved" + (f", {len(row.unproved)} NOT" if row.unproved else "")
    wrong = [f"{cell(row.missed)} MISSED"] if row.missed else []
    wrong += [f"{cell(row.extra)} TOO MANY"] if row.extra else []
    ran = cell(Counter(row.truth.ran) + Counter(row.truth.skips))
    cells = (row.case.name, ran, cell(row.native), cell(row.found), "; ".join(wrong) or "0", sites, row.model_check)
    return f"| {' | '.join(cells)} | {row.seconds:.1f} |"


def cell(counts: Counter[str]) -> str:
    """Counts in words: `5 layer_norm, 2 gelu`."""
    return ", ".join(f"{n} {name}" for name, n in sorted(counts.items()) if n) or "0"


def notes(row: Row) -> Iterator[str]:
    """What was missed and why, what is not proved and why, and why the whole model is not."""
    for miss in row.report.misses if row.missed else ():
        yield f"{miss.rule} at {miss.node}: {miss.reason} ({miss.matched} of {miss.total} nodes, {miss.where})"
    yield from row.unproved
    whole = row.report.check
    if whole is not None and whole.reason:
        yield f"whole model: {whole.reason}"


if __name__ == "__main__":
    sys.exit(main())
