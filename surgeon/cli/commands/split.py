"""The command `surgeon split`: splits a model into consecutive parts."""

from typing import Any

import click

from surgeon.cli.commands.edit import report_edit
from surgeon.cli.options import check_and_output_options, explain_invalid_names
from surgeon.errors import UsageError


@click.command(short_help="Cut a model into parts that follow each other.")
@click.argument("source", metavar="IN")
@click.argument("output", metavar="OUTDIR")
@click.option("--at", metavar="NAMES", help="Tensors to cut behind, with commas.")
@click.option("--parts", type=int, metavar="N", help="Instead, parts of about as many bytes of weights.")
@click.option("--dry-run", is_flag=True, help="Say where it would be cut and write nothing.")
@click.option("--report", "report_path", metavar="FILE", help="Write the report as JSON.")
@check_and_output_options("model", "auto", "none", layers=False)
@explain_invalid_names
def split(
    source: str,
    output: str,
    at: str | None,
    report_path: str | None,
    quiet: bool,
    **settings: Any,
) -> None:
    """Write IN to the folder OUTDIR in parts, each a model that takes what earlier ones give.

    The parts, one after the other, are held against IN under ONNX Runtime.
    Example: surgeon split in.onnx parts --at /layer.3/out,/layer.7/out
    """
    from surgeon.edits.merge_split.split import split as run
    from surgeon.pipeline.editing.edit import parse_names

    cuts = parse_names(at, "NAME,...") if at is not None else ()
    if bool(cuts) == (settings["parts"] is not None):
        raise UsageError("Say where to cut, with --at or with --parts: one of the two.")

    report_edit(
        lambda: run(source, output, at=cuts, **settings),
        (source, output),
        report_path=report_path,
        quiet=quiet,
    )
