"""The command `surgeon run`: runs a recipe."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from surgeon.cli.fleet_options import fleet_options, run_fleet
from surgeon.cli.options import check_and_output_options
from surgeon.cli.report_file import report_option, run_and_report

if TYPE_CHECKING:
    from surgeon.proof.check_options import CheckOptions


class Variable(click.ParamType):  # type: ignore[type-arg]  # generic only from click 8.4 on
    """NAME=VALUE; a numeric value becomes a number."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        """Return the name and the value."""
        if isinstance(value, tuple):
            return value
        name, sign, text = str(value).partition("=")
        if not sign or not name.strip():
            self.fail(f"{value!r} is not of the form NAME=VALUE", param, ctx)
        for kind in (int, float):
            try:
                return name.strip(), kind(text)
            except ValueError:
                continue
        return name.strip(), text


@click.command(short_help="Run a recipe: edits and rules in order.")
@click.argument("recipe", metavar="RECIPE")
@click.argument("source", metavar="IN", required=False)
@click.argument("output", metavar="OUT", required=False)
@click.option("--set", "variables", type=Variable(), multiple=True, help="A variable of the recipe; repeatable.")
@click.option("--lock", is_flag=True, help="Note beside the recipe what was done.")
@click.option("--expect-same", is_flag=True, help="Write only if all is done as noted with --lock, else exit 3.")
@click.option("--dry-run", is_flag=True, help="Say what would be done and write nothing.")
@report_option("the report")
@fleet_options
@check_and_output_options("auto", "none", layers=False)
def run(
    recipe: str,
    source: str,
    output: str,
    variables: Sequence[tuple[str, Any]],
    report_path: str | None,
    quiet: bool,
    options: "CheckOptions",
    fleet: dict[str, Any] | None,
    **settings: Any,
) -> None:
    """Do to IN what RECIPE says, step by step, each proved, and write OUT once.

    A recipe is a TOML file; `surgeon record` writes one from a command line.
    Example: surgeon run deploy.toml in.onnx out.onnx --set batch=4 --expect-same

    With --over, the same is done to many models, each in a process of its own; the exit code is 1 where one is wrong.
    Example: surgeon run deploy.toml --over 'zoo/**/*.onnx' --to fused --jobs 4 --resume
    """
    if fleet is not None:
        settings |= {"variables": dict(variables), "options": options}
        run_fleet(recipe, fleet, settings, report_path=report_path, quiet=quiet)
        return
    from surgeon.automation.recipes.run_recipe import run as run_recipe

    run_and_report(
        lambda _: run_recipe(recipe, source, output, variables=dict(variables), options=options, **settings),
        (source, output),
        report_path,
        quiet=quiet,
    )
