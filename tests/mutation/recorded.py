"""What the proofs make of a sample of mutants and of the wrong rules written by hand, as files that the tests read.

A line is "outcome | title".  "HOLE" and "proved" are what is known to be wrong: whoever mends a proof records anew,
by `python -m tests.mutation --sample --record` and `python -m tests.mutation --planted --record`.  Mutants that were
holes once are kept by hand, one for each way in which proofs were mended: none of them may be one again.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.mutation.measuring import Mutant, Result, measure, mutants_of
from tests.mutation.subjects import fixtures

HERE = Path(__file__).parent
MUTANTS, PLANTED = HERE / "sample.txt", HERE / "planted.txt"
MENDED = HERE / "mended.txt"
SIZE = 60


def read(path: Path) -> dict[str, str]:
    """Outcomes by title."""
    pairs = (line.split(" | ", 1) for line in path.read_text(encoding="utf-8").splitlines())
    return {title: outcome for outcome, title in pairs}


def record(path: Path, found: Iterable[tuple[str, str]]) -> None:
    """Write titles and outcomes."""
    lines = [f"{outcome} | {title}\n" for title, outcome in found]
    path.write_text("".join(lines), encoding="utf-8")


def sampled(titles: Iterable[str]) -> list[Mutant]:
    """The mutants of these titles.  Raises KeyError for one that there is not (record the sample anew)."""
    wanted = list(titles)
    names = {title.partition(" | ")[0] for title in wanted}
    known = {one.title: one for subject in fixtures() if subject.name in names for one in mutants_of(subject)}
    return [known[title] for title in wanted]


def outcomes(mutants: Iterable[Mutant]) -> list[Result]:
    """What becomes of mutants, in this process."""
    by_name = {subject.name: subject for subject in fixtures()}
    groups: dict[str, list[Mutant]] = {}
    for one in mutants:
        groups.setdefault(one.subject, []).append(one)
    return [result for name, group in groups.items() for result in measure(by_name[name], group)]


def spread(mutants: list[Mutant], size: int = SIZE) -> list[Mutant]:
    """So many of them, evenly."""
    return [mutants[at * len(mutants) // size] for at in range(min(size, len(mutants)))]
