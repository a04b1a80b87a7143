"""What is said of the outputs that a comparison looked at."""

from collections.abc import Sequence
from dataclasses import replace

from surgeon.runtime.numerics.array_comparison import OutputError


def by_output(errors: Sequence[OutputError]) -> list[OutputError]:
    """The worst error of each output, those that differ first.

    A sequence or a map is compared part by part, its length or its keys first: `len(p)`, `keys(p[0])`, `p[0][cat]`.
    Here it is one row, which names the part that is worst: a classifier's probabilities are a map for each picture.
    """
    wholes = [error.name.partition("(")[2][:-1] for error in errors if error.name.startswith(("len(", "keys("))]
    tops = [name for name in wholes if not any(name.startswith(f"{other}[") for other in wholes)]
    found: dict[str, list[OutputError]] = {}
    for error in errors:
        top = next((name for name in tops if _is_of(error.name, name)), error.name)
        found.setdefault(top, []).append(error)
    worst = {top: max(parts, key=_badness) for top, parts in found.items()}
    rows = [
        replace(error, name=f"{top} ({len(found[top]):,} parts; worst {error.name})") if top in tops else error
        for top, error in worst.items()
    ]
    return sorted(rows, key=_badness, reverse=True)


def _is_of(name: str, top: str) -> bool:
    """Whether a row is of an output that is a sequence or a map."""
    inner = name.partition("(")[2][:-1] if name.startswith(("len(", "keys(")) else name
    return inner == top or inner.startswith(f"{top}[")


def _badness(error: OutputError) -> tuple[bool, float]:
    return not error.ok, error.severity
