"""The command `surgeon run`: runs a recipe."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from surgeon.cli.fleet_options import fleet_settings, run_fleet
from surgeon.cli.options import OPTIONAL, Spelling, derived_command
from surgeon.cli.report_file import run_and_report

if TYPE_CHECKING:
    from surgeon.proof.check_options import CheckOptions


@derived_command(
    "run_many run",
    {"recipe": "RECIPE", "source": "[IN]", "output": "[OUT]"},
    without="sources client progress begins dashboard layers proof_time",
    external_data=Spelling(type=click.Choice(["auto", "share", "copy", "inline"])),
    to=Spelling(metavar="FOLDER", default=OPTIONAL),
)
def run(
    recipe: str,
    source: str | None,
    output: str | None,
    variables: dict[str, Any],
    report_path: str | None,
    quiet: bool,
    options: "CheckOptions",
    over: Sequence[str] = (),
    **settings: Any,
) -> None:
    """Do to IN what RECIPE says, step by step, each proved, and write OUT once.

    A recipe is a TOML file; `surgeon record` writes one from a command line.
    Example: surgeon run deploy.toml in.onnx out.onnx --set batch=4 --expect-same

    With --over, the same is done to many models, each in its own process; the exit code is 1 where one is wrong.
    Example: surgeon run deploy.toml --over 'zoo/**/*.onnx' --to fused --jobs 4 --resume

    Args:
        over: run the recipe on many models instead of IN: a pattern ('zoo/**/*.onnx', 's3://zoo/*.onnx'), or a table of
            them (.txt, .jsonl, .parquet).
        baseline: rows of another run (.jsonl, .parquet); the exit code is 1 only where something is worse now.
        jobs: number of models to work on at once, here.
        to: the folder or the store for the results of --over, each named as its model.
    """
    fleet = fleet_settings(settings, recipe=recipe, over=over, source=source, output=output)
    if fleet is not None:
        settings |= {"variables": variables, "options": options}
        run_fleet(recipe, fleet, settings, report_path=report_path, quiet=quiet)
        return
    from surgeon.automation.recipes.run_recipe import run as run_recipe

    run_and_report(
        lambda _: run_recipe(recipe, source, output, variables=variables, options=options, **settings),
        (str(source), str(output)),
        report_path=report_path,
        quiet=quiet,
    )
