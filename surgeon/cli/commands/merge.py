"""The command `surgeon merge`: merges two models."""

from collections.abc import Sequence
from typing import Any

from surgeon.cli.options import OF_SITES, OPTIONAL, Spelling, derived_command
from surgeon.cli.report_file import run_and_report
from surgeon.errors import UsageError


@derived_command(
    "merge",
    {"first": "A", "second": "B", "output": "OUT"},
    without=f"layers {OF_SITES}",
    shared="report_path diff verbose quiet",
    connect=Spelling(metavar="OUTPUT=INPUT,...", type=str, multiple=True),
    prefix=Spelling(metavar="A,B", type=str, multiple=False, default=OPTIONAL),
)
def merge(first: str, second: str, output: str, connect: Sequence[str], prefix: str | None, **settings: Any) -> None:
    """Connect outputs of A to inputs of B, and write both as one model to OUT.

    surgeon runs A and then B, and compares the result with OUT.
    Example: surgeon merge a.onnx b.onnx out.onnx --connect boxes=images
    Exit codes: 1 OUT computes different results from A followed by B

    Args:
        connect: output of A that feeds an input of B, or an input that both share.  Default: outputs and inputs with
            equal names.
        prefix: prefixes for all names of A and of B; either may be empty.
    """
    from surgeon.pipeline.editing.edit import parse_names, parse_pair

    pairs: dict[str, list[str]] = {}
    for text in connect:
        for part in parse_names(text, "OUTPUT=INPUT,..."):
            end, start = parse_pair(part, "OUTPUT=INPUT,...")
            pairs.setdefault(end, []).append(start)
    sides = (prefix or ",").split(",")
    if len(sides) != 2:
        raise UsageError(f"Invalid prefixes {prefix!r}: expected A,B (for example d_,c_ or ,c_).")
    run_merge(first, second, output, connect=pairs or None, prefix=(sides[0], sides[1]), **settings)


def run_merge(first: str, second: str, output: str, **settings: Any) -> None:
    """Merge two models for a command, and print the report.  Raises as `surgeon.merge`."""
    from surgeon.edits.merge_split.merge import merge as run

    files = (first, second, output)
    run_and_report(lambda _, **given: run(first, second, output=output, **given), files, **settings)
