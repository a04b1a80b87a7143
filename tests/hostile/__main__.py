"""`python -m tests.hostile`: mutants and bombs through surgeon's commands, and how they ended."""

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.hostile.bombs import bombs
from tests.hostile.mutants import mutant
from tests.hostile.running import (
    BAD,
    FINE,
    IDLE,
    REFUSED,
    Case,
    Ending,
    commands,
    counted,
    endings,
    further_commands,
    is_bad,
    patience,
)
from tests.hostile.subjects import subjects
from tests.hostile.warm import warm

FURTHER = 3


def main() -> int:
    """Run them and print the table; 1 where any ended badly."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--files", type=int, default=10_000, help="mutants to make (default 10000)")
    parser.add_argument("--seed", type=int, default=0, help="the first mutant's seed")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once (default 2)")
    parser.add_argument("--keep", type=Path, help="a folder for files that end badly, and what was said of each")
    parser.add_argument("--every", type=int, default=1, help="run one in so many of all cases (default 1)")
    parser.add_argument("--only", default="", help="cases with this in their name")
    options = parser.parse_args()
    picked = islice(every(options.files, options.seed), 0, None, options.every)
    cases = (case for case in picked if options.only in case.name)

    forks: Counter[str] = Counter()

    def note(ending: Ending) -> None:
        if ending.in_fork:
            forks[ending.in_fork] += 1
        if is_bad(ending):
            print(
                f"{ending.kind}: {' '.join(ending.case.arguments)}: {ending.case.name}: {_last(ending.text)}",
                flush=True,
            )
            _keep(options.keep, ending)

    with tempfile.TemporaryDirectory() as folder:
        sound = Case("gelu", subjects()["gelu"].SerializeToString(), commands()[2])
        limit = patience(sound, Path(folder))
        warm(sound.data, commands(), further_commands(sound.data))
        counts = counted(endings(cases, Path(folder), options.jobs, limit), note)
    show(counts)
    print(f"A hang is what takes more than {limit:.0f} s of processor time, or does nothing for {IDLE:.0f} s.")
    if forks:
        seen = ", ".join(f"{count} {kind}" for kind, count in forks.items())
        print(f"Run again in a process of their own, as they ended badly in a fork: {seen}.")
    return int(any(kind in BAD for _, kind in counts))


def every(files: int, seed: int) -> Iterator[Case]:
    """All cases: each mutant by one command, one in FURTHER by a further one too; each bomb by all."""
    for name, data in bombs():
        for arguments in (*commands(), *further_commands(data)):
            yield Case(f"bomb {name}", data, arguments)
    for number in range(seed, seed + files):
        reported, data = mutant(number)
        yield Case(f"{number} {reported}", data, random.Random(f"command {number}").choice(commands()))
        if number % FURTHER == 0:
            chosen = random.Random(f"further command {number}").choice(further_commands(data))
            yield Case(f"{number} {reported}", data, chosen)


def show(counts: Counter[tuple[str, str]]) -> None:
    """Print how many ended how."""
    kinds = (FINE, REFUSED, *BAD)
    table = Table("command", *kinds)
    for command in sorted({command for command, _ in counts}):
        table.add_row(command, *(str(counts[command, kind]) for kind in kinds))
    table.add_row("all", *(str(sum(count for (_, had), count in counts.items() if had == kind)) for kind in kinds))
    Console().print(table)


def _last(text: str) -> str:
    return text.strip().splitlines()[-1][:200] if text.strip() else ""


def _keep(folder: Path | None, ending: Ending) -> None:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        stem = ending.case.name.split(",")[0].replace(" ", "-").replace("/", "-")
        (folder / f"{stem}.onnx").write_bytes(ending.case.data)
        (folder / f"{stem}.txt").write_text(
            f"{ending.case.name}\n{ending.case.arguments}\n{ending.kind}\n{ending.text}"
        )


if __name__ == "__main__":
    sys.exit(main())
