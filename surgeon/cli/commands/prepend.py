"""The command `surgeon prepend`: adds image preprocessing in front of a model."""

from typing import TYPE_CHECKING

import click

from surgeon.cli.commands.edit import IN_OUT, edit_command, single_input_or_output
from surgeon.cli.options import OPTIONAL, Spelling
from surgeon.cli.param_types import NUMBERS

if TYPE_CHECKING:
    from surgeon.pipeline.editing.edit import Edit

SETTINGS = ("layout", "dtype", "mean", "std", "scale", "resize", "bgr")


@edit_command(
    "edit surgeon.edits.prepend:PrependImage",
    IN_OUT | {"kind": "image"},
    kind=Spelling(type=click.Choice(["image"])),
    input=Spelling(metavar="NAME", default=OPTIONAL),
    mean=Spelling(type=NUMBERS, multiple=False),
    std=Spelling(type=NUMBERS, multiple=False),
    resize=Spelling(metavar="N|HxW", type=str, multiple=False),
)
def prepend(ctx: click.Context) -> "list[Edit]":
    """Let IN take pictures as cameras and files give them: layout, dtype, scale, mean and std become part of OUT.

    Example: surgeon prepend in.onnx out.onnx image --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --resize 224

    Args:
        input: the name of the input, by default of the only one.
    """
    from surgeon.edits.prepend import PrependImage
    from surgeon.pipeline.editing.edit import parse_picture_size

    given = {name: ctx.params[name] for name in SETTINGS}
    given["resize"] = None if given["resize"] is None else parse_picture_size(given["resize"])
    return [PrependImage(ctx.params["input"] or single_input_or_output(ctx.params["source"], "input"), **given)]
