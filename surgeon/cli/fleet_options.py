"""The options of `surgeon run` for many models, and the run itself."""

import functools
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from surgeon.cli.command_suggestions import QUOTE
from surgeon.errors import UsageError
from surgeon.printed_commands import command as printed

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_ONE_MODEL_OPTIONS = {"lock": "--lock", "expect_same": "--expect-same", "force": "--force"}
_FLEET_OPTIONS = ("to", "engine", "at_once", "model_time", "model_memory", "resume", "baseline", "rows", "own_proofs")
REGRESSED = 1  # the exit code for a failed model, or a regression from the baseline


class Bytes(click.ParamType):  # type: ignore[type-arg]  # generic only from click 8.4 on
    """A number of bytes, with or without a unit."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(i?)b?", str(value).strip().lower())
        if found is None:
            self.fail(f"{value!r} is no size; write 500MB, 4GB or 4GiB", param, ctx)
        unit = _UNITS[found[2]]
        return int(float(found[1]) * (unit if not found[3] else 1 << 10 * list(_UNITS).index(found[2])))


def fleet_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for many models as one dict `fleet`, None for one model."""
    options = (
        click.option(
            "--over",
            multiple=True,
            metavar="MODELS",
            help="Run the recipe on many models instead of IN: a pattern ('zoo/**/*.onnx', 's3://zoo/*.onnx'), or "
            "a table of them (.txt, .jsonl, .parquet); repeatable.",
        ),
        click.option("--to", metavar="FOLDER", help="Where the results of --over go, each named as its model."),
        click.option(
            "--engine",
            default="local",
            show_default=True,
            metavar="NAME",
            help="What works on the models of --over: local, dask (the scheduler that Dask's configuration names), or "
            "dask://HOST:PORT.",
        ),
        click.option("--jobs", "-j", "at_once", type=int, default=1, help="Models to work on at once, here."),
        click.option(
            "--model-time",
            type=float,
            default=600.0,
            show_default=True,
            metavar="SECONDS",
            help="What one model of --over may take, by the clock.",
        ),
        click.option("--model-memory", type=Bytes(), help="Memory that the process of one model may have."),
        click.option("--resume", is_flag=True, help="Leave alone what is done and has not changed since."),
        click.option(
            "--baseline",
            metavar="FILE",
            help="Rows of another run (.jsonl, .parquet); exit 1 where something is worse now, and only then.",
        ),
        click.option("--rows", metavar="FILE", help="Write a row for each model: .jsonl grows meanwhile, or .parquet."),
        click.option("--own-proofs", is_flag=True, help="Prove each model by itself, also what another has proved."),
    )

    @functools.wraps(command)
    def run(*, over: Sequence[str], source: str | None, output: str | None, **keywords: Any) -> Any:
        fleet = {name: keywords.pop(name) for name in _FLEET_OPTIONS}
        if not over:
            given = [name for name in ("to", "rows", "baseline", "resume", "own_proofs") if fleet[name]]
            if given:
                raise UsageError(f"--{given[0].replace('_', '-')} is for many models; name them with --over.")
            if source is None or output is None:
                raise UsageError(_missing_model_message(keywords["recipe"], source))
            return command(source=source, output=output, fleet=None, **keywords)
        if source is not None:
            raise UsageError(f"{source} is named beside --over; give one of them. {QUOTE}")
        if not fleet["to"] and not keywords["dry_run"]:
            raise UsageError("Say where the results go, with --to.")
        conflicting = next((flag for name, flag in _ONE_MODEL_OPTIONS.items() if keywords.get(name)), None)
        if conflicting is not None:
            raise UsageError(f"{conflicting} is for one model; of a fleet, rows are compared: --rows and --baseline.")
        return command(source="", output="", fleet={**fleet, "over": over}, **keywords)

    decorated: Callable[..., Any] = run
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def _missing_model_message(recipe: str, source: str | None) -> str:
    """The error message for a missing model, or a missing recipe."""
    if Path(recipe).suffix != ".toml" and (source is None or Path(source).suffix != ".toml"):
        first, plain = printed("run", "RECIPE.toml", recipe, source or ""), ("rewrite", recipe, source or "OUT")
        return (
            f"{recipe} is not a recipe; give a TOML file first: {first}; "
            f"to run rules without a recipe: {printed(*plain, '--rules', 'NAMES')}"
        )
    return "Name the model and where to write it, or many with --over and --to."


def run_fleet(
    recipe: str,
    fleet: dict[str, Any],
    settings: dict[str, Any],
    *,
    report_path: str | None,
    quiet: bool,
) -> None:
    """Run a recipe on many models, and exit with the code of the result."""
    from surgeon.automation.fleet.run_many import run_many
    from surgeon.cli.progress import FleetProgress
    from surgeon.cli.report_file import require_report_path, write_report
    from surgeon.display.terminal.terminal_renderer import show

    require_report_path(report_path)
    fleet_settings = {name: fleet[name] for name in _FLEET_OPTIONS if name not in ("to", "at_once")}
    shared = ("check", "require_proof", "external_data", "dry_run", "variables", "options")
    shared_settings = {name: settings[name] for name in shared}
    with FleetProgress(quiet) as progress:
        found = run_many(
            recipe,
            fleet["over"],
            to=fleet["to"] or ".",
            jobs=fleet["at_once"],
            progress=progress.show_row,
            begins=progress.begins,
            dashboard=None if quiet else progress.dashboard,
            **fleet_settings,
            **shared_settings,
        )
    if report_path is not None:
        write_report(found, report_path)
    if not quiet or not found.ok:
        show(found, sys.stdout)
    code = 0 if found.ok else REGRESSED
    found.close()
    if code:
        click.get_current_context().exit(code)
