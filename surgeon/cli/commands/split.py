"""The command `surgeon split`: splits a model into consecutive parts."""

from typing import Any

from surgeon.cli.options import OF_SITES, OPTIONAL, Spelling, derived_command
from surgeon.cli.report_file import run_and_report
from surgeon.errors import UsageError


@derived_command(
    "split",
    {"source": "IN", "output": "OUTDIR"},
    without=f"layers {OF_SITES}",
    shared="report_path verbose quiet",
    at=Spelling(metavar="A,B,...", type=str, multiple=False, default=OPTIONAL),
)
def split(source: str, output: str, at: str | None, **settings: Any) -> None:
    """Split IN into consecutive models, and write them to the folder OUTDIR.

    surgeon runs the parts in order and compares the result with IN.
    Example: surgeon split in.onnx parts --at /layer.3/out,/layer.7/out
    Exit codes: 1 the parts compute different results from IN
    """
    from surgeon.edits.merge_split.split import split as run
    from surgeon.pipeline.editing.edit import parse_names

    cuts = parse_names(at, "NAME,...") if at is not None else ()
    if bool(cuts) == (settings["parts"] is not None):
        raise UsageError("Give --at A,B,... or --parts N, but not both.")
    run_and_report(lambda _, **given: run(source, output, at=cuts, **given), (source, output), **settings)
