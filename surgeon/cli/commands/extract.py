"""The command `surgeon extract`: writes a part of a model to its own file."""

from typing import TYPE_CHECKING

import click

from surgeon.cli.commands.edit import edit_command
from surgeon.errors import UsageError

if TYPE_CHECKING:
    from surgeon.pipeline.editing.edit import Edit


@edit_command("extract")
def extract(ctx: click.Context) -> "list[Edit]":
    """Extract the smallest part of IN that computes some tensors from others, and write it to OUT.

    surgeon runs OUT and compares it with the inner tensors of IN.
    Example: surgeon extract in.onnx out.onnx --from /block.1/out --to logits
    Exit codes: 1 OUT computes different results from that part of IN
    """
    from surgeon.edits.extract import Extract

    froms, tos = ctx.params["froms"], ctx.params["tos"]
    if not froms and not tos:
        raise UsageError("No cuts given. Give the first tensors with --from, the last ones with --to, or both.")
    return [Extract.parse(f"{froms or ''}={tos or ''}")]
