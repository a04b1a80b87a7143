"""The command `surgeon inspect`: shows what is in a model."""

import sys

import click

from surgeon.cli.options import explain_invalid_names
from surgeon.display.terminal.console import print_json


@click.command(short_help="Show what is in a model.")
@click.argument("source", metavar="MODEL")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
@explain_invalid_names
def inspect(source: str, as_json: bool) -> None:
    """Show opsets, ops, custom ops, inputs, outputs and the size of the weights of MODEL.  Payloads are not read."""
    from surgeon.display.terminal.terminal_renderer import show
    from surgeon.targets.inspection.model_summary import inspect as look

    found = look(source)
    if as_json:
        print_json(found.to_dict())
    else:
        show(found, sys.stdout)
