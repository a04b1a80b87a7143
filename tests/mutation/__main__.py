"""Command line of the mutation tests."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.mutation.measuring import Mutant, Result, chosen, measure, mutants_of, thinned
from tests.mutation.mutating import Subject
from tests.mutation.subjects import exports, fixtures
from tests.mutation.table import lines, summary, worklist
from tests.mutation.working import measure_all

MOST, SAMPLE = 60, 1  # mutants of each rule: in the table, and in the sample


def main() -> int:
    """Plant wrong replacements in the rules and print what the proofs say of them."""
    options = _options()
    if options.planted is not None:
        return _planted(options.planted)
    subjects = {one.name: one for one in fixtures()}
    if options.exports:
        subjects.update((one.name, one) for one in exports())
    if options.show:
        return _show(subjects, options.show)
    mutants = [one for one in _mutants(subjects, options) if _is_wanted(one, options)]
    mutants = chosen(mutants, SAMPLE if options.sample else options.most)
    print(f"{len(mutants):,} mutants", file=sys.stderr, flush=True)
    results = []
    for at, result in enumerate(measure_all(subjects, mutants, options.jobs)):
        results.append(result)
        if at % 100 == 99:
            print(summary(results), file=sys.stderr, flush=True)
            _write(results, options)
    _write(results, options)
    print("\n".join(lines(results)) if options.table else summary(results))
    return 0


def _write(results: Sequence[Result], options: argparse.Namespace) -> None:
    text = "\n".join(lines(results)) + "\n"
    if options.write:
        options.write.write_text(text, encoding="utf-8")
    if options.holes:
        options.holes.write_text("\n".join([summary(results), *worklist(results)]) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=main.__doc__)
    parser.add_argument("--table", action="store_true", help="print the whole table and not one line")
    parser.add_argument("--sample", action="store_true", help="one mutant of each rule")
    parser.add_argument("--exports", action="store_true", help="real exports too (made on first use)")
    parser.add_argument("--most", type=int, default=MOST, help="mutants of each rule (default %(default)s)")
    parser.add_argument("--rule", default="", help="this rule alone")
    parser.add_argument("--kind", default="", help="this kind of change alone")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once (default %(default)s)")
    parser.add_argument("--write", type=Path, help="a file for the table")
    parser.add_argument("--holes", type=Path, help="a file for the holes, with a command for each")
    parser.add_argument("--show", default="", help='one mutant by its title, "subject | rule | change"')
    parser.add_argument("--planted", nargs="?", const="", help="the wrong rules written by hand: all, or one by its name")
    return parser.parse_args()


def _is_wanted(one: Mutant, options: argparse.Namespace) -> bool:
    return options.rule in ("", one.spot.rule) and options.kind in ("", one.kind)


def _mutants(subjects: dict[str, Subject], options: argparse.Namespace) -> Sequence[Mutant]:
    return thinned(mutant for subject in subjects.values() for mutant in mutants_of(subject))


def _planted(name: str) -> int:
    """Print what the proofs say of the wrong rules written by hand."""
    from tests.mutation.planted import PLANTED, outcome

    if name and name not in PLANTED:
        print(f"No rule {name!r} is planted; --planted alone lists them.")
        return 2
    for one in PLANTED.values():
        if name in ("", one.name):
            found, reason = outcome(one)
            print(f"{found:9} {one.area:10} {one.name}{': ' * bool(reason)}{reason}")
    return 0


def _show(subjects: dict[str, Subject], title: str) -> int:
    """Measure one mutant, and print the replacement it changes."""
    name = title.partition(" | ")[0]
    found = [one for one in mutants_of(subjects[name]) if one.title == title]
    if not found:
        print(f"There is no mutant {title!r}; a title is 'subject | rule | change', as the table has it.")
        return 2
    for result in measure(subjects[name], found):
        print(f"{result.mutant.spot.rule} writes: {result.mutant.spot.text}")
        print(f"{result.outcome}: {result.reason}\nthe proof: {result.proof}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
