"""`python -m tests.attention --table`: export every variant, run our rules and the peers, and print what came of it."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tests.attention import cases, peers, running, table
from tests.attention.exporting import export
from tests.attention.measure import TARGETS


def main() -> int:
    """Command line; the exit code is 1 where something of ours is not full."""
    parser = argparse.ArgumentParser(prog="python -m tests.attention", description=__doc__)
    parser.add_argument("--table", action="store_true", help="print the table (without: only make the exports)")
    parser.add_argument("--sample", action="store_true", help="the fixed sample of the tests")
    parser.add_argument("--every", action="store_true", help="the whole product of variants and ways to export")
    parser.add_argument("--short", action="store_true", help="a row for each model, and no lists")
    parser.add_argument("--no-peers", action="store_true", help="our own columns alone")
    parser.add_argument("--target", choices=TARGETS.values(), help="of our own columns, the one of this target alone")
    parser.add_argument("--match", default="", help="only cases whose name has all these words, split at spaces")
    parser.add_argument("--misses", action="store_true", help="print every reason why something is not full")
    parser.add_argument("--jobs", type=int, default=1, help="processes to measure with")
    parser.add_argument("--write", type=Path, metavar="PATH", help="write the whole table to a file")
    options = parser.parse_args()
    known = cases.sample() if options.sample else cases.every() if options.every else cases.table()
    chosen = [case for case in known if all(word in case.name for word in options.match.split())]
    if not options.table:
        for case in chosen:
            started = time.perf_counter()
            made = export(case)
            print(f"{case.name}: {made.fault or made.path} ({time.perf_counter() - started:.1f} s)", flush=True)
        return 0
    own = [tool for tool, target in TARGETS.items() if options.target in (None, target)]
    found = running.measured(chosen, own if options.no_peers else [*own, *peers.PEERS], options.jobs)
    if options.misses:
        for row in found:
            for own_tool in row.own:
                for text in row.cells[own_tool].misses:
                    print(f"{row.export.name} ({row.export.path}), {own_tool}: {text}")
    title = "Attention and rotary embedding" + ": a sample" * options.sample
    print("\n".join(table.lines(found, title, options.short)))
    if options.write:
        partial = options.write.with_name(f".{os.getpid()}-{options.write.name}")
        partial.write_text("\n".join(table.lines(found, title)) + "\n", encoding="utf-8")
        partial.replace(options.write)
    return int(any(row.cells and row.fault for row in found))


if __name__ == "__main__":
    sys.exit(main())
