"""`python -m tests.matrix --table`: export every form, run our rules and the peers, and print what came of it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests.matrix import sample, table
from tests.matrix.measure import OURS, TOOLS


def main() -> int:
    """Command line; the exit code is 1 where a cell of ours is not full."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--table", action="store_true", help="print the table (without: only make the exports)")
    parser.add_argument("--sample", action="store_true", help="the fixed sample in place of every case")
    parser.add_argument("--short", action="store_true", help="print a row for each operation, not for each form")
    parser.add_argument("--no-peers", action="store_true", help="our own column alone")
    parser.add_argument("--match", default="", help="only families and columns whose names contain this")
    parser.add_argument("--write", type=Path, metavar="PATH", help="write the whole table to a file")
    options = parser.parse_args()
    chosen = sample.chosen() if options.sample else sample.every()
    chosen = [part for part in chosen if options.match in part.name]
    tools: tuple[str, ...] = () if not options.table else (OURS,) if options.no_peers else TOOLS
    found = table.run(chosen, tools, lambda text: print(text, file=sys.stderr, flush=True))
    if not options.table:
        return 0
    title = "Matrix: a sample" if options.sample else "Matrix"
    print("\n".join(table.lines(found, title, options.short)))
    if options.write:
        text = "\n".join(table.lines(found, title, False)) + "\n"
        partial = options.write.with_name(f".{os.getpid()}-{options.write.name}")
        partial.write_text(text, encoding="utf-8")
        partial.replace(options.write)
    return int(bool(found.faults))


if __name__ == "__main__":
    sys.exit(main())
