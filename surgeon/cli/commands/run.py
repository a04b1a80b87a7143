"""The command `surgeon run`: runs a recipe."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

from surgeon.cli.fleet_options import fleet_options, run_fleet
from surgeon.cli.options import check_and_output_options
from surgeon.cli.report_file import report_option, run_and_report
from surgeon.display.terminal.console import OUTCOME_STYLES, labelled_line_printer, make_console
from surgeon.display.terminal.sanitise import sanitise
from surgeon.text import seconds_text

if TYPE_CHECKING:
    from surgeon.automation.recipes.recipe_report import RecipeReport
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
        lambda report: print_recipe(report, sys.stdout),
        (source, output),
        report_path=report_path,
        quiet=quiet,
    )


def print_recipe(report: "RecipeReport", stream: TextIO) -> None:
    """Print the results of each step, and the outcome."""

    from surgeon.display.content.edit import edit_effects
    from surgeon.display.content.near_misses import warning_lines
    from surgeon.pipeline.reports.edit_report import EditReport

    console = make_console(stream)
    line = labelled_line_printer(console)

    for part in report.parts:
        if isinstance(part, EditReport):
            for done in part.edits:
                line(done.edit.flag, f" {sanitise('; '.join(edit_effects(done)))}")
        else:
            fired = ", ".join(f"{rule} {count:,}" for rule, count in part.counts.items() if count)
            undone = f"; {len(part.rolled_back):,} rolled back" if part.rolled_back else ""
            line("rules", f" {fired or 'nothing fired'}{undone}; nodes {part.nodes_before:,} -> {part.nodes_after:,}")
            for remark in warning_lines(part):
                line("", f" {sanitise(remark)}")
        for reason in dict.fromkeys(part.doubts):
            line("", f" {sanitise(reason)}")
    line("outcome", OUTCOME_STYLES[report.outcome])
    line("time", seconds_text(report.seconds))
    line("written", report.output if report.written else "nothing")
