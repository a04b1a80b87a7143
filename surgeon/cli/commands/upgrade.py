"""The command `surgeon upgrade`: raises the opset of a model."""

import sys
from typing import TYPE_CHECKING, Any

import click

from surgeon.cli.options import derived_command
from surgeon.cli.progress import progress
from surgeon.display.terminal.sanitise import sanitise
from surgeon.errors import CheckFailed

if TYPE_CHECKING:
    from surgeon.proof.check_options import CheckOptions


@derived_command("upgrade", {"source": "IN", "output": "OUT"}, without="proof_time jobs")
def upgrade(source: str, output: str, opset: int, quiet: bool, options: "CheckOptions", **settings: Any) -> None:
    """Raise the opset of IN where no node would change its meaning, check the result, and write OUT."""
    from surgeon.display.terminal.terminal_renderer import show
    from surgeon.pipeline.reports.upgrade_report import UpgradeReport
    from surgeon.pipeline.upgrading.upgrade import upgrade as run

    try:
        with progress(quiet):
            done = run(source, opset, output, options=options, **settings)
    except CheckFailed as error:
        if not quiet and isinstance(error.report, UpgradeReport):
            show(error.report, sys.stdout)
        raise
    if not quiet:
        show(done, sys.stdout)
    elif done.check is not None and done.check.outcome.value == "unproved":
        click.echo(sanitise(f"UNPROVED: {done.check.reason}"), err=True)
