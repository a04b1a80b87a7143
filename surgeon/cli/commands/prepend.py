"""The command `surgeon prepend`: adds image preprocessing to an input of a model."""

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
    """Add image preprocessing to an input of IN, so that OUT accepts raw images.

    Layout, dtype, scale, mean and std become part of the model.
    Example: surgeon prepend in.onnx out.onnx image --scale 255 --resize 224
    Exit codes: 1 OUT computes different results from preprocessing followed by IN

    Args:
        input: name of the input.  Default: the only input.
    """
    from surgeon.edits.prepend import PrependImage
    from surgeon.pipeline.editing.edit import parse_picture_size

    given = {name: ctx.params[name] for name in SETTINGS}
    given["resize"] = None if given["resize"] is None else parse_picture_size(given["resize"])
    return [PrependImage(ctx.params["input"] or single_input_or_output(ctx.params["source"], "input"), **given)]
