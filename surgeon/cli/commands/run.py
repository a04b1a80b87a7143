"""The command `surgeon run`: runs a recipe."""

from collections.abc import Sequence
from typing import Any

from surgeon.cli.fleet_options import OF_MANY_MODELS, OF_ONE_MODEL, require_many_models, require_one_model, run_fleet
from surgeon.cli.options import OPTIONAL, Spelling, derived_command
from surgeon.cli.report_file import run_and_report


@derived_command(
    "run_many run",
    {"recipe": "RECIPE", "source": "[IN]", "output": "[OUT]"},
    without="sources client progress begins dashboard layers proof_time coverage",
    to=Spelling(metavar="FOLDER", default=OPTIONAL),
)
def run(
    recipe: str,
    source: str | None,
    output: str | None,
    report_path: str | None,
    quiet: bool,
    verbose: bool,
    over: Sequence[str] = (),
    **settings: Any,
) -> None:
    """Apply the steps of RECIPE to IN, check each one, and write OUT.

    A recipe is a TOML file; surgeon record writes one from a command line.  With --over, the recipe is applied to many
    models, each in its own process.
    Example: surgeon run deploy.toml in.onnx out.onnx --set batch=4
    Example: surgeon run deploy.toml --over 'zoo/**/*.onnx' --to fused
    Exit codes: 1 a step or a model failed or, with --baseline, got worse, 3 --expect-same was not met

    Args:
        over: models to run the recipe on, instead of IN: a pattern ('zoo/**/*.onnx', 's3://zoo/*.onnx'), or a table of
            models (.txt, .jsonl, .parquet).  Quote patterns.
        jobs: number of models to process in parallel on this machine.
        to: output folder or store for --over.  Files keep the names of their models.
        check: "auto": prove each rewritten site, and each edit.  "none": no check.
    """
    shown: dict[str, Any] = {"report_path": report_path, "quiet": quiet, "verbose": verbose}
    if over:
        require_many_models(source, settings)
        known = {name: value for name, value in settings.items() if name not in OF_ONE_MODEL}
        run_fleet(recipe, over, **known, **shown)
        return
    from surgeon.automation.recipes.run_recipe import run as run_recipe

    require_one_model(recipe, source, output, settings)
    known = {name: value for name, value in settings.items() if name not in OF_MANY_MODELS}
    run_and_report(lambda _: run_recipe(recipe, source, output, **known), (str(source), str(output)), **shown)
