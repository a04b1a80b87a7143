"""The settings of `surgeon run` for many models, and the run itself."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from surgeon.cli.command_suggestions import QUOTE
from surgeon.errors import UsageError
from surgeon.printed_commands import command as printed

_ONE_MODEL_OPTIONS = {"lock": "--lock", "expect_same": "--expect-same", "force": "--force"}
_FLEET_OPTIONS = ("to", "engine", "jobs", "model_time", "model_memory", "resume", "baseline", "rows", "own_proofs")
REGRESSED = 1  # the exit code for a failed model, or a regression from the baseline


def fleet_settings(
    settings: dict[str, Any], *, recipe: str, over: Sequence[str], source: str | None, output: str | None
) -> dict[str, Any] | None:
    """The settings of a run over many models, which are taken out of `settings`; None for one model.

    over: the models.  Raises UsageError for settings that do not fit.
    """
    fleet = {"over": over, **{name: settings.pop(name) for name in _FLEET_OPTIONS}}
    if not over:
        given = [name for name in ("to", "rows", "baseline", "resume", "own_proofs") if fleet[name]]
        if given:
            raise UsageError(f"--{given[0].replace('_', '-')} is for many models; name them with --over.")
        if source is None or output is None:
            raise UsageError(_missing_model_message(recipe, source))
        return None
    if source is not None:
        raise UsageError(f"{source} is named beside --over; give one of them. {QUOTE}")
    if not fleet["to"] and not settings["dry_run"]:
        raise UsageError("Say where the results go, with --to.")
    conflicting = next((flag for name, flag in _ONE_MODEL_OPTIONS.items() if settings.get(name)), None)
    if conflicting is not None:
        raise UsageError(f"{conflicting} is for one model; of a fleet, rows are compared: --rows and --baseline.")
    return fleet


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
    fleet_settings = {name: fleet[name] for name in _FLEET_OPTIONS if name != "to"}
    shared = ("check", "require_proof", "external_data", "dry_run", "variables", "options")
    shared_settings = {name: settings[name] for name in shared}
    with FleetProgress(quiet) as progress:
        found = run_many(
            recipe,
            fleet["over"],
            to=fleet["to"] or ".",
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
