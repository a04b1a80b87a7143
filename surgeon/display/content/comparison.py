"""The outputs of a comparison, as rows."""

from collections.abc import Sequence
from dataclasses import replace

from surgeon.runtime.numerics.array_comparison import OutputError


def by_output(errors: Sequence[OutputError]) -> list[OutputError]:
    """The worst error of each output, those that differ first.

    A sequence or a map is compared part by part, starting with its length or keys: `len(p)`, `keys(p[0])`, `p[0][cat]`.
    Here it is one row with the worst part: a classifier may return a map of probabilities for each picture.
    """
    containers = [error.name.partition("(")[2][:-1] for error in errors if error.name.startswith(("len(", "keys("))]
    outermost = [name for name in containers if not any(name.startswith(f"{other}[") for other in containers)]
    found: dict[str, list[OutputError]] = {}
    for error in errors:
        top = next((name for name in outermost if _is_part_of(error.name, name)), error.name)
        found.setdefault(top, []).append(error)
    worst = {top: max(parts, key=_badness) for top, parts in found.items()}
    rows = [
        replace(error, name=f"{top} ({len(found[top]):,} parts; worst {error.name})") if top in outermost else error
        for top, error in worst.items()
    ]
    return sorted(rows, key=_badness, reverse=True)


def _is_part_of(name: str, top: str) -> bool:
    """Whether a row is a part of an output that is a sequence or a map."""
    inner = name.partition("(")[2][:-1] if name.startswith(("len(", "keys(")) else name
    return inner == top or inner.startswith(f"{top}[")


def _badness(error: OutputError) -> tuple[bool, float]:
    return not error.ok, error.severity
