"""The command `surgeon insert`: replaces the nodes between two cuts with one node."""

from typing import TYPE_CHECKING

import click

from surgeon.cli.commands.edit import edit_command
from surgeon.cli.options import Spelling
from surgeon.declarations import REQUIRED

if TYPE_CHECKING:
    from surgeon.pipeline.editing.edit import Edit


@edit_command(
    "insert",
    froms=Spelling("--between", default=REQUIRED),
    tos=Spelling("--and", default=REQUIRED),
    op=Spelling(metavar="DOMAIN::NAME"),
)
def insert(ctx: click.Context) -> "list[Edit]":
    """Write to OUT the model IN with one node in the place of all that lies between two cuts.

    It is proved by the op's implementation, given with --custom-ops; without one it is unproved.
    Example: surgeon insert in.onnx out.onnx --between boxes,scores --and kept --op trt.plugins::MyNMS --attr iou=0.5

    Args:
        attributes: an attribute of the node: alpha=0.5, sizes=[1,2], mode=linear, label:string=3.
    """
    from surgeon.edits.attribute_text import parse_attribute
    from surgeon.edits.insert import Insert
    from surgeon.pipeline.editing.edit import parse_names

    given = ctx.params
    reads, makes = (parse_names(given[side], "NAME,...") for side in ("froms", "tos"))
    attributes = dict(parse_attribute(item) for item in given["attributes"])
    return [Insert(reads, makes, given["op"], attributes=attributes, name=given["name"])]
