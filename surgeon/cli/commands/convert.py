"""The command `surgeon convert`: converts a model to another precision."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

from surgeon.cli.commands.edit import report_edit
from surgeon.cli.options import check_and_output_options, explain_invalid_names
from surgeon.cli.report_file import report_option
from surgeon.display.terminal.console import OUTCOME_STYLES, labelled_line_printer, make_console
from surgeon.display.terminal.sanitise import sanitise
from surgeon.text import seconds_text

if TYPE_CHECKING:
    from surgeon.precision.convert_report import ConvertReport
    from surgeon.proof.check_options import CheckOptions

_DTYPES = ("float16", "bfloat16", "float32", "int32")


@click.command(short_help="Convert a model to float16, bfloat16 or another precision.")
@click.argument("source", metavar="IN")
@click.argument("output", metavar="OUT")
@click.option("--to", type=click.Choice(_DTYPES), default="float16", show_default=True, help="The new dtype.")
@click.option("--from", "from_", metavar="DTYPE", help="The old one.  [default: float32, or what --to is made of]")
@click.option(
    "--io",
    type=click.Choice(["keep", "convert"]),
    default="keep",
    show_default=True,
    help="Leave inputs and outputs of the model as they are, or have them of the new dtype too.",
)
@click.option(
    "--keep",
    multiple=True,
    metavar="WHAT",
    help="What keeps its dtype, with commas: op:Softmax, name:*/norm/*, rule:layer_norm; auto: what runs and known "
    "formulas say.  [default: auto]",
)
@click.option(
    "--max-error",
    type=float,
    default=1e-2,
    show_default=True,
    metavar="X",
    help="How far an output may move, as a part of its largest number.",
)
@click.option("--clamp", is_flag=True, help="Have weights that are too large saturate, instead of keeping them.")
@click.option(
    "--ep",
    metavar="NAME",
    help="The execution provider that is to run it: cpu, cuda, dml, tensorrt; what it has no kernel for in the new "
    "dtype is kept.  [default: ask none]",
)
@click.option("--rules", "-r", multiple=True, metavar="NAMES", help="Rules to run first, as for surgeon rewrite.")
@click.option("--dry-run", is_flag=True, help="Say what would be done and write nothing.")
@report_option("the report")
@check_and_output_options("model", "none", layers=False)
@explain_invalid_names
def convert(
    source: str,
    output: str,
    keep: Sequence[str],
    rules: Sequence[str],
    report_path: str | None,
    quiet: bool,
    options: "CheckOptions",
    **settings: Any,
) -> None:
    """Convert IN to another precision, the fewest nodes and Casts beside, and write OUT.

    What half precision does not hold is found by runs of IN and kept, each node with its reason; the result is held
    against IN.  IN and OUT may be the same file.  Example: surgeon convert in.onnx half.onnx --to float16
    """
    from surgeon.precision.convert import convert as run

    kept = [part.strip() for text in keep for part in text.split(",") if part.strip()]
    names = [part.strip() for text in rules for part in text.split(",") if part.strip()]
    report_edit(
        lambda: run(source, output=output, keep=kept or ("auto",), rules=names, options=options, **settings),
        lambda report: print_conversion(report, sys.stdout),
        (source, output),
        report_path=report_path,
        quiet=quiet,
    )


def print_conversion(report: "ConvertReport", stream: TextIO) -> None:
    """Print the converted and the kept nodes, the errors of the outputs, and the output file."""
    from surgeon.display.content.conversion import kept_node_rows, outcome_words, segment_lines
    from surgeon.precision.convert_report import ORDER
    from surgeon.text import format_count

    console = make_console(stream)
    line = labelled_line_printer(console)
    line("convert", f"{report.change[0]} to {report.change[1]}: {format_count(report.converted, 'node')}")
    for name, count in report.rules.items():
        line("rule", f"{name} x{count:,}")
    for nodes, reason, _ in kept_node_rows(report):
        line("kept", f"{sanitise(nodes)}: {sanitise(reason)}")
    if report.followers:
        line("", f"and {format_count(report.followers, 'node')} between these, which round nothing")
    for sentence in report.told:
        line("note", sanitise(sentence))
    line("casts", f"{report.casts:,}")
    before, after = (size / 1e6 for size in report.bytes)
    line("stored", f"{before:,.1f} MB -> {after:,.1f} MB")
    for place, sentence in enumerate(segment_lines(report)):
        line("" if place else "stretch", sanitise(sentence))
    line("outcome", OUTCOME_STYLES[report.outcome], f" {sanitise(outcome_words(report))}".rstrip())
    if report.error is not None and report.outcome in ("proved", "unproved"):
        line("moved", f"outputs by {report.error:.2g} of their scale at most")
    if report.outcome == "proved":
        line("", ORDER)
    line("time", seconds_text(report.seconds))
    line("written", report.output if report.written else "nothing")
