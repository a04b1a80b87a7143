"""`python -m tests.peer_suites`: the models that other optimizers' own tests hold, given to `surgeon rewrite`.

Tests come from the package index where an sdist brings them, otherwise from a checkout.  A suite without tests to
run is skipped, with the reason.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.peer_suites.catalogue import SUITES, source_of
from tests.peer_suites.getting import CannotGet, captured
from tests.peer_suites.judging import Verdict, judged
from tests.peer_suites.table import FOOT, explained, faults, table


def main() -> int:
    """Judge each suite and print the table; 1 where something is at fault (see `faults`)."""
    options = _arguments()
    sources = dict(item.split("=", 1) for item in options.source)
    found: dict[str, list[Verdict]] = {}
    for name in options.suites or SUITES:
        checkout = sources.get(source_of(name))
        try:
            models = captured(name, SUITES[name], Path(checkout) if checkout else None)
        except CannotGet as error:
            print(f"{name} is skipped: {error}", file=sys.stderr, flush=True)
            continue
        chosen = [one for one in models if options.test in one.test]
        found[name] = judged(chosen)
        if options.verbose:
            for model, verdict in zip(chosen, found[name], strict=True):
                _print(model.before, verdict)
    print("\n".join([*table(found), "", FOOT, "", *explained(found)]))
    wrong = faults(found)
    print("\n".join(wrong), file=sys.stderr)
    return int(bool(wrong))


def _print(path: Path, verdict: Verdict) -> None:
    nodes = " → ".join(map(str, verdict.nodes))
    print(f"{verdict.outcome}\t{nodes}\t{verdict.test}\t{path}\t{verdict.text}", file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.peer_suites", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"default: all of {', '.join(SUITES)}")
    parser.add_argument("--source", action="append", default=[], metavar="PROJECT=FOLDER", help="a checkout")
    parser.add_argument("--test", default="", metavar="TEXT", help="only tests with this in their names")
    parser.add_argument("--verbose", action="store_true", help="print a line for each model")
    options = parser.parse_args()
    unknown = set(options.suites) - set(SUITES)
    if unknown:
        parser.error(f"there is no suite {sorted(unknown)[0]!r}: choose from {', '.join(SUITES)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
