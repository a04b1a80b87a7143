"""The command `surgeon insert`: replaces the nodes between two cuts with one node."""

from typing import TYPE_CHECKING, Any

import click

from surgeon.cli.commands.edit import edit_options, run_requested_edits
from surgeon.cli.options import check_and_output_options, explain_invalid_names

if TYPE_CHECKING:
    from surgeon.pipeline.editing.edit import Edit

SETTINGS = ("froms", "tos", "op", "attributes", "name")


@click.command(short_help="Put one node in the place of all between two cuts.")
@click.argument("source", metavar="IN")
@click.argument("output", metavar="OUT")
@click.option("--between", "froms", metavar="NAMES", required=True, help="Tensors that the node reads, with commas.")
@click.option("--and", "tos", metavar="NAMES", required=True, help="Tensors that it makes, with commas.")
@click.option("--op", metavar="DOMAIN::NAME", required=True, help="What the node is.")
@click.option(
    "--attr",
    "attributes",
    multiple=True,
    metavar="NAME[:TYPE]=VALUE",
    help="An attribute: alpha=0.5, sizes=[1,2], mode=linear, label:string=3; repeatable.",
)
@click.option("--name", default="", help="The name of the node.")
@edit_options
@check_and_output_options("auto", "none", layers=False)
@explain_invalid_names
def insert(source: str, output: str, **settings: Any) -> None:
    """Write to OUT the model IN with one node in the place of all that lies between two cuts.

    It is proved by the op's implementation, given with --custom-ops; without one it is unproved.
    Example: surgeon insert in.onnx out.onnx --between boxes,scores --and kept --op trt.plugins::MyNMS --attr iou=0.5
    """
    run_requested_edits(requested_edits, SETTINGS, source, output, **settings)


def requested_edits(ctx: click.Context) -> "list[Edit]":
    """The edit of the command line."""
    from surgeon.edits.attribute_text import parse_attribute
    from surgeon.edits.insert import Insert
    from surgeon.pipeline.editing.edit import parse_names

    given = ctx.params
    reads, makes = (parse_names(given[side], "NAME,...") for side in ("froms", "tos"))
    return [
        Insert(
            reads,
            makes,
            given["op"],
            attributes=dict(parse_attribute(item) for item in given["attributes"]),
            name=given["name"],
        )
    ]
