"""The command `surgeon extract`: writes a part of a model as a model."""

from typing import TYPE_CHECKING

import click

from surgeon.cli.commands.edit import edit_command
from surgeon.errors import UsageError

if TYPE_CHECKING:
    from surgeon.pipeline.editing.edit import Edit


@edit_command("extract")
def extract(ctx: click.Context) -> "list[Edit]":
    """Write to OUT what IN computes from some tensors to others: the smallest graph that does.

    The result is compared with the inner tensors of IN under ONNX Runtime.
    Example: surgeon extract in.onnx out.onnx --from /layer.1/out --to /layer.3/out
    """
    from surgeon.edits.extract import Extract

    froms, tos = ctx.params["froms"], ctx.params["tos"]
    if not froms and not tos:
        raise UsageError("Say where to cut, with --from, --to, or both.")
    return [Extract.parse(f"{froms or ''}={tos or ''}")]
