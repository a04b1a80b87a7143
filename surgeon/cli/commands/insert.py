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
    """Replace all nodes between two cuts of IN with one node, and write OUT.

    The implementation of the op in --custom-ops proves the replacement.  Without one it is unproved.
    Example: surgeon insert in.onnx out.onnx --between x --and y --op my::Swish
    Exit codes: 1 the node computes different results from the nodes that it replaces

    Args:
        attributes: attribute of the node: alpha=0.5, sizes=[1,2], mode=linear, label:string=3.
    """
    from surgeon.edits.attribute_text import parse_attribute
    from surgeon.edits.insert import Insert
    from surgeon.pipeline.editing.edit import parse_names

    given = ctx.params
    reads, makes = (parse_names(given[side], "NAME,...") for side in ("froms", "tos"))
    attributes = dict(parse_attribute(item) for item in given["attributes"])
    return [Insert(reads, makes, given["op"], attributes=attributes, name=given["name"])]
