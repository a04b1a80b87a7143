"""The command `surgeon convert`: converts a model to another precision."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from surgeon.cli.options import OF_SITES, Spelling, derived_command
from surgeon.cli.report_file import run_and_report

if TYPE_CHECKING:
    from surgeon.proof.check_options import CheckOptions

DTYPES = ["float16", "bfloat16", "float32", "int32", "int4", "int8"]


@derived_command(
    "convert",
    {"source": "IN", "output": "OUT"},
    without=f"layers {OF_SITES}",
    shared="report_path verbose quiet",
    to=Spelling(metavar="DTYPE", type=click.Choice(DTYPES), section="Options"),
)
def convert(
    source: str, output: str, keep: Sequence[str], rules: Sequence[str], options: "CheckOptions", **settings: Any
) -> None:
    """Convert IN to another dtype with as few exceptions and Casts as possible, and write OUT.

    surgeon runs IN to find nodes that half precision cannot represent.  These keep their dtype, each with a reason.
    OUT is then compared with IN.  IN and OUT may be the same file.
    Example: surgeon convert in.onnx half.onnx --to float16
    Exit codes: 1 an output differs by more than --max-error
    """
    from surgeon.precision.convert import convert as run

    kept, names = ([part.strip() for part in ",".join(texts).split(",") if part.strip()] for texts in (keep, rules))
    settings |= {"keep": kept or ("auto",), "rules": names, "options": options}
    run_and_report(lambda _, **given: run(source, output=output, **given), (source, output), **settings)
