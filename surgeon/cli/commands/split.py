"""The command `surgeon split`: splits a model into consecutive parts."""

import sys
from typing import TYPE_CHECKING, Any, TextIO

import click

from surgeon.cli.commands.edit import report_edit
from surgeon.cli.options import check_and_output_options, explain_invalid_names
from surgeon.display.content.edit import check_words
from surgeon.display.terminal.console import OUTCOME_STYLES, labelled_line_printer, make_console
from surgeon.display.terminal.sanitise import sanitise
from surgeon.errors import UsageError
from surgeon.text import join_first, seconds_text

if TYPE_CHECKING:
    from surgeon.edits.merge_split.split import SplitReport

SHOWN = 8  # inputs or outputs shown per part


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
        lambda report: print_split(report, sys.stdout),
        (source, output),
        report_path=report_path,
        quiet=quiet,
    )


def print_split(report: "SplitReport", stream: TextIO) -> None:
    """Print the parts, the outcome, and the output folder."""

    console = make_console(stream)
    line = labelled_line_printer(console)

    for place, part in enumerate(report.parts):
        takes, gives = (sanitise(join_first(names, SHOWN)) or "nothing" for names in (part.inputs, part.outputs))
        line("" if place else "parts", f" {sanitise(part.name)}: {part.nodes:,} nodes, {takes} -> {gives}")
    words = check_words(report.check) if report.check is not None else ""
    if report.check is None and report.by_structure:
        words = "every node and weight is the original's own, names apart"
    line("outcome", OUTCOME_STYLES[report.outcome], f" {sanitise(words)}".rstrip())
    if report.refused:
        line("note", sanitise(report.refused))
    line("time", seconds_text(report.seconds))
    line("written", report.output if report.written else "nothing")
