"""The command `surgeon inspect`: shows what is in a model."""

import sys

from surgeon.cli.options import derived_command
from surgeon.display.terminal.console import print_json


@derived_command("inspect", {"source": "MODEL"})
def inspect(source: str, as_json: bool) -> None:
    """Show opsets, ops, custom ops, inputs, outputs and the size of the weights of MODEL.  Payloads are not read."""
    from surgeon.display.terminal.terminal_renderer import show
    from surgeon.targets.inspection.model_summary import inspect as look

    found = look(source)
    if as_json:
        print_json(found.to_dict())
    else:
        show(found, sys.stdout)
