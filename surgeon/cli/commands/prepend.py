"""The command `surgeon prepend`: adds image preprocessing in front of a model."""

from typing import TYPE_CHECKING, Any

import click

from surgeon.cli.commands.edit import edit_options, run_requested_edits, single_input_or_output
from surgeon.cli.options import check_and_output_options, explain_invalid_names

if TYPE_CHECKING:
    from surgeon.pipeline.editing.edit import Edit

SETTINGS = ("kind", "name", "layout", "dtype", "mean", "std", "scale", "resize", "bgr")


class Numbers(click.ParamType):  # type: ignore[type-arg]  # generic only from click 8.4 on
    """Numbers with commas."""

    name = "A,B,C"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """Return the numbers."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(float(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not of the form 0.485,0.456,0.406", param, ctx)


@click.command(short_help="Put what is done to pictures in front of a model.")
@click.argument("source", metavar="IN")
@click.argument("output", metavar="OUT")
@click.argument("kind", type=click.Choice(["image"]))
@click.option("--input", "name", metavar="NAME", help="Which input.  [default: the only one]")
@click.option(
    "--layout", type=click.Choice(["NHWC", "NCHW"]), default="NHWC", show_default=True, help="Of the pictures."
)
@click.option("--dtype", type=click.Choice(["uint8", "float32"]), default="uint8", show_default=True, help="Likewise.")
@click.option("--mean", type=Numbers(), default=(), help="Taken off each channel, after the scale.  [default: 0]")
@click.option("--std", type=Numbers(), default=(), help="Each channel is divided by it.  [default: 1]")
@click.option("--scale", type=float, default=255.0, show_default=True, help="What 1.0 is in a picture.")
@click.option("--resize", metavar="N|HxW", help="Bring pictures of any size to this height and width.")
@click.option("--bgr", is_flag=True, help="The model wants the channels in the other order.")
@edit_options
@check_and_output_options("auto", "model", "none", layers=False)
@explain_invalid_names
def prepend(source: str, output: str, **settings: Any) -> None:
    """Let IN take pictures as cameras and files give them: layout, dtype, scale, mean and std become part of OUT.

    Example: surgeon prepend in.onnx out.onnx image --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --resize 224
    """
    run_requested_edits(requested_edits, SETTINGS, source, output, **settings)


def requested_edits(ctx: click.Context) -> "list[Edit]":
    """The edit of the command line."""
    from surgeon.edits.prepend import PrependImage, parse_size

    given = {name: ctx.params[name] for name in SETTINGS[2:]}
    given["resize"] = None if given["resize"] is None else parse_size(given["resize"])
    return [PrependImage(ctx.params["name"] or single_input_or_output(ctx.params["source"], "input"), **given)]
