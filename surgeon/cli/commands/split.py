"""The command `surgeon split`: splits a model into consecutive parts."""

from typing import Any

from surgeon.cli.options import OF_SITES, OPTIONAL, Spelling, derived_command
from surgeon.cli.report_file import run_and_report
from surgeon.errors import UsageError


@derived_command(
    "split",
    {"source": "IN", "output": "OUTDIR"},
    without=f"layers {OF_SITES}",
    at=Spelling(metavar="A,B,...", type=str, multiple=False, default=OPTIONAL),
)
def split(source: str, output: str, at: str | None, report_path: str | None, quiet: bool, **settings: Any) -> None:
    """Write IN to the folder OUTDIR in parts, each a model that takes what earlier ones give.

    The parts, one after the other, are compared with IN under ONNX Runtime.
    Example: surgeon split in.onnx parts --at /layer.3/out,/layer.7/out
    """
    from surgeon.edits.merge_split.split import split as run
    from surgeon.pipeline.editing.edit import parse_names

    cuts = parse_names(at, "NAME,...") if at is not None else ()
    if bool(cuts) == (settings["parts"] is not None):
        raise UsageError("Say where to cut, with --at or with --parts: one of the two.")

    run_and_report(
        lambda _: run(source, output, at=cuts, **settings),
        (source, output),
        report_path=report_path,
        quiet=quiet,
    )
