"""The table, what is still refused with the reason, and what was taken before and is not any more."""

from collections import defaultdict
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tests.tensorrt_prepared.explained import explanation
from tests.tensorrt_prepared.rows import Row, Taken
from tests.tensorrt_prepared.tools import OURS


def show(rows: Sequence[Row], tools: Sequence[str], title: str, *, build: bool, compare: bool, each: bool) -> int:
    """Print all; the exit code: 1 where a model was broken, or is refused and nothing explains it.

    each: one line for each model too.
    """
    console = Console(soft_wrap=True, highlight=False, markup=False)
    judged = [row for row in rows if not row.fault]
    console.print(f"{len(judged):,} models, {title}")
    console.print(_table(judged, tools, build, compare), soft_wrap=False)
    for row in judged if each else ():
        console.print(f"{row.name}: {_said(row.before)} -> {_said(row.after[OURS])}")
    for fault, names in _by((row.fault, row.name) for row in rows if row.fault):
        console.print(f"no model: {fault[:90]}  ({len(names)}: {names[0]})")
    unexplained = _refused(console, judged)
    broken = [row.name for row in judged if row.is_broken(OURS)]
    for name in broken:
        console.print(f"BROKEN {name}")
    return int(bool(broken) or bool(unexplained))


def _table(rows: Sequence[Row], tools: Sequence[str], build: bool, compare: bool) -> Table:
    built = f"built of {sum(row.before.built is not None for row in rows):,}"
    table = Table("", "parsed", *[built] * build, *["equal"] * compare, "failed", "taken before, not after")
    for name in ("before", *tools):
        made = [row.before if name == "before" else row.after[name] for row in rows]
        cells = [str(sum(one.parsed for one in made))]
        cells += [str(sum(one.built is True for one in made))] * build
        cells += ["" if name == "before" else str(sum(one.equal == "proved" for one in made))] * compare
        cells += [str(sum(bool(one.failed) for one in made))]
        cells += ["" if name == "before" else str(sum(row.is_broken(name) for row in rows))]
        table.add_row(name, *cells)
    return table


def _said(made: Taken) -> str:
    if made.failed:
        return made.failed
    if not made.is_taken:
        return "; ".join(f"{op}: {reason}" if op else reason for op, reason in made.found[:1])
    message = "parsed" if made.built is None else "built"
    sizes = ", ".join(f"{name}={size}" for name, size in made.sizes.items())
    equal = {"": "", "proved": ", equal", "unproved": ", equal or not is not told"}.get(made.equal, ", OTHERWISE")
    return f"{message}{f' for {sizes}' if sizes else ''}{equal}"


def _refused(console: Console, rows: Sequence[Row]) -> int:
    """Print what is refused after the rules, by explanation; how many none explains."""
    left = [row for row in rows if not row.after[OURS].is_taken]
    groups = _by((_explained(row), row.name) for row in left)
    unexplained = 0
    console.print(f"{len(left):,} are refused after the rules:" if left else "None is refused after the rules.")
    for text, names in groups:
        shown = ", ".join(names[:3])
        console.print(f"{len(names):4} {text or 'UNEXPLAINED'}  ({shown}{', …' if len(names) > 3 else ''})")
        unexplained += 0 if text else len(names)
    for row in left:
        if not _explained(row):
            console.print(f"UNEXPLAINED {row.name}: {_said(row.after[OURS])}")
    return unexplained


def _explained(row: Row) -> str:
    made = row.after[OURS]
    return "" if made.failed else explanation(made.found)


def _by(pairs: object) -> list[tuple[str, list[str]]]:
    found: dict[str, list[str]] = defaultdict(list)
    for key, name in pairs:  # type: ignore[attr-defined]
        found[key].append(name)
    return sorted(found.items(), key=lambda item: -len(item[1]))
