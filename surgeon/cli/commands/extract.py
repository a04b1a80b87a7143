"""The command `surgeon extract`: writes a part of a model as a model."""

from typing import TYPE_CHECKING, Any

import click

from surgeon.cli.commands.edit import edit_options, run_requested_edits
from surgeon.cli.options import check_and_output_options, explain_invalid_names
from surgeon.errors import UsageError

if TYPE_CHECKING:
    from surgeon.pipeline.editing.edit import Edit

SETTINGS = ("froms", "tos")


@click.command(short_help="Cut a part out of a model, between tensors.")
@click.argument("source", metavar="IN")
@click.argument("output", metavar="OUT")
@click.option("--from", "froms", metavar="NAMES", help="Tensors to begin with, with commas; else the model's inputs.")
@click.option("--to", "tos", metavar="NAMES", help="Tensors to end with, with commas; else the model's outputs.")
@edit_options
@check_and_output_options("model", "auto", "none", layers=False)
@explain_invalid_names
def extract(source: str, output: str, **settings: Any) -> None:
    """Write to OUT what IN computes from some tensors to others: the smallest graph that does.

    The result is held against the inner tensors of IN under ONNX Runtime.
    Example: surgeon extract in.onnx out.onnx --from /layer.1/out --to /layer.3/out
    """
    run_requested_edits(requested_edits, SETTINGS, source, output, **settings)


def requested_edits(ctx: click.Context) -> "list[Edit]":
    """The edit of the command line.  Raises UsageError without a cut."""
    from surgeon.edits.extract import Extract

    froms, tos = ctx.params["froms"], ctx.params["tos"]
    if not froms and not tos:
        raise UsageError("Say where to cut, with --from, --to, or both.")
    return [Extract.parse(f"{froms or ''}={tos or ''}")]
