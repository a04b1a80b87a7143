"""Command line of the mutation tests."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.mutation import recorded
from tests.mutation.measuring import Mutant, Result, chosen, measure, mutants_of, thinned
from tests.mutation.mutating import Subject
from tests.mutation.subjects import exports, fixtures
from tests.mutation.table import lines, summary, worklist
from tests.mutation.working import measure_all

MAX_MUTANTS = 40  # mutants of each rule in the table


def main() -> int:
    """Plant wrong replacements in the rules and print what the proofs say of them; or right ones."""
    options = _options()
    if options.planted is not None:
        return _planted(options.planted, options.record)
    if options.sealed:
        return _sealed(names=options.names)
    if options.right:
        return _right(options)
    is_export = options.show.partition(" | ")[0] not in ("", *(one.name for one in fixtures()))
    subjects = {one.name: one for one in (exports() if options.exports or is_export else fixtures())}
    if options.show:
        return _show(subjects, options.show)
    mutants = _mutants(subjects, options)
    print(f"{len(mutants):,} mutants", file=sys.stderr, flush=True)
    results: list[Result] = []
    for result in measure_all(subjects, mutants, options.jobs):
        results.append(result)
        if len(results) % 100 == 0:
            print(summary(results), file=sys.stderr, flush=True)
            _write(results, options)
    _write(results, options)
    if options.sample and options.record:
        recorded.record(recorded.MUTANTS, sorted((one.mutant.title, one.outcome) for one in results))
    print("\n".join(lines(results)) if options.table else summary(results))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=main.__doc__)
    parser.add_argument("--table", action="store_true", help="print the whole table and not one line")
    parser.add_argument("--sample", action="store_true", help="the mutants of the default test run")
    parser.add_argument(
        "--right", action="store_true", help="rewrites that are right, none of which may be called wrong"
    )
    parser.add_argument(
        "--planted", nargs="?", const="", help="the wrong rules written by hand: all, or one by its name"
    )
    parser.add_argument(
        "--sealed", action="store_true", help="the sealed half of them, once per release: counts by kind of mistake"
    )
    parser.add_argument(
        "--names", action="store_true", help="with --sealed: name the faults that pass, and the controls that fail"
    )
    parser.add_argument("--record", action="store_true", help="choose the sample anew, and write what the tests expect")
    parser.add_argument(
        "--exports", action="store_true", help="real exports in place of the fixtures (made on first use)"
    )
    parser.add_argument("--most", type=int, default=MAX_MUTANTS, help="mutants of each rule (default %(default)s)")
    parser.add_argument("--rule", default="", help="this rule alone")
    parser.add_argument("--kind", default="", help="this kind of change alone")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once (default %(default)s)")
    parser.add_argument("--write", type=Path, help="a file for the table")
    parser.add_argument("--holes", type=Path, help="a file for the holes, with a command for each")
    parser.add_argument("--show", default="", help='one mutant by its title, "subject | rule | change"')
    return parser.parse_args()


def _mutants(subjects: dict[str, Subject], options: argparse.Namespace) -> Sequence[Mutant]:
    """The mutants that are asked for."""
    if options.sample and not options.record:
        return recorded.sampled(recorded.read(recorded.MUTANTS))
    found = thinned(mutant for subject in subjects.values() for mutant in mutants_of(subject))
    if options.sample:
        return recorded.spread(chosen(found, 1))
    wanted = [one for one in found if options.rule in ("", one.spot.rule) and options.kind in ("", one.kind)]
    return chosen(wanted, options.most)


def _write(results: Sequence[Result], options: argparse.Namespace) -> None:
    if options.write:
        options.write.write_text("\n".join(lines(results)) + "\n", encoding="utf-8")
    if options.holes:
        options.holes.write_text("\n".join([summary(results), *worklist(results)]) + "\n", encoding="utf-8")


def _planted(name: str, record: bool) -> int:
    """Print what the proofs say of the wrong rules written by hand."""
    from tests.mutation.planted import PLANTED, outcome

    if name and name not in PLANTED:
        print(f"No rule {name!r} is planted; --planted alone lists them.")
        return 2
    found = {}
    for one in PLANTED.values():
        if name in ("", one.name):
            found[one.name], reason = outcome(one)
            print(f"{found[one.name]:9} {one.area:10} {one.name}{': ' * bool(reason)}{reason}")
    if record and not name:
        recorded.record(recorded.PLANTED, found.items())
    return 0


def _sealed(*, names: bool) -> int:
    """Print what the proofs say of the sealed faults, as counts; 1 where a right rewrite among them is called wrong."""
    import tests.mutation.sealed  # noqa: F401  fills the table
    from tests.mutation.sealing import SEALED, lines, outcomes, passed

    found: dict[str, str] = {}
    for sentence, said in outcomes([*SEALED]):
        found[sentence] = said
        if len(found) % 20 == 0:
            print(f"{len(found):,} of {len(SEALED):,}", file=sys.stderr, flush=True)
    print("\n".join([*lines(found), *(passed(found) if names else ())]))
    return int(any(SEALED[sentence].is_control and said == "failed" for sentence, said in found.items()))


def _right(options: argparse.Namespace) -> int:
    """Print how many right rewrites are called what, and each that is not proved; 1 where one is called wrong."""
    from tests.mutation.right import outcome, rights

    counts: Counter[tuple[str, str]] = Counter()
    for one in rights():
        if options.rule in one.name:
            found, reason = outcome(one)
            counts[one.source, found] += 1
            if found == "failed" or (options.table and found != "proved"):
                print(f"- {found}: {one.source}, {one.name}: {reason}", flush=True)
            if counts.total() % 100 == 0:
                print(f"{counts.total():,} right rewrites, the last {one.source}", file=sys.stderr, flush=True)
    print(f"\n{counts.total():,} right rewrites")
    for (source, found), number in sorted(counts.items()):
        print(f"{source:8} {found:12} {number:,}")
    return int(any(found == "failed" for _, found in counts))


def _show(subjects: dict[str, Subject], title: str) -> int:
    """Measure one mutant, and print the replacement it changes."""
    name = title.partition(" | ")[0]
    found = [one for one in mutants_of(subjects[name]) if one.title == title] if name in subjects else []
    if not found:
        print(f"There is no mutant {title!r}; a title is 'subject | rule | change', as the table has it.")
        return 2
    print(f"{found[0].spot.rule} writes: {found[0].spot.text}", flush=True)
    for result in measure(subjects[name], found):
        print(f"{result.outcome}: {result.reason}\nthe proof: {result.proof}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
