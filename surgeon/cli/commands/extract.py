"""The command `surgeon extract`: writes a part of a model as a model."""

from typing import TYPE_CHECKING, Any

import click

from surgeon.cli.commands.edit import run_requested_edits
from surgeon.cli.options import derived_command
from surgeon.errors import UsageError

if TYPE_CHECKING:
    from surgeon.pipeline.editing.edit import Edit

SETTINGS = ("froms", "tos")


@derived_command(
    "extract", {"source": "IN", "output": "OUT"}, without="layers proof_time jobs", shared="report_path diff quiet"
)
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
