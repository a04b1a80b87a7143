"""The settings of `surgeon run` for many models, and the run itself."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from surgeon.cli.command_suggestions import QUOTE
from surgeon.errors import UsageError
from surgeon.printed_commands import command as printed

OF_ONE_MODEL = {"lock": "--lock", "expect_same": "--expect-same", "force": "--force"}
"""Options that only a run on one model has."""
OF_MANY_MODELS = ("to", "rows", "baseline", "resume", "own_proofs", "engine", "jobs", "model_time", "model_memory")
"""Options that only a run on many models has, those first that are off by default."""
REGRESSED = 1  # the exit code for a failed model, or a regression from the baseline


def require_one_model(recipe: str, source: str | None, output: str | None, settings: Mapping[str, Any]) -> None:
    """Raise UsageError for a run on one model that does not name it, or has options of many."""
    given = next((name for name in OF_MANY_MODELS[:5] if settings[name]), None)
    if given is not None:
        raise UsageError(f"--{given.replace('_', '-')} needs --over, which gives many models.")
    if source is None or output is None:
        raise UsageError(_missing_model_message(recipe, source))
    if "*" in source and not Path(source).exists():
        raise UsageError(f"IN is one model, but {source} is a pattern. For many models: --over PATTERN --to FOLDER.")


def require_many_models(source: str | None, settings: Mapping[str, Any]) -> None:
    """Raise UsageError for a run on many models that also names a single one, or has options for one."""
    if source is not None:
        raise UsageError(f"Give IN or --over, not both (IN is {source}). {QUOTE}")
    if not settings["to"] and not settings["dry_run"]:
        raise UsageError("--over needs an output folder: --to FOLDER")
    given = next((flag for name, flag in OF_ONE_MODEL.items() if settings[name]), None)
    if given is not None:
        raise UsageError(f"{given} is only for one model. To compare runs over many models, use --rows and --baseline.")


def _missing_model_message(recipe: str, source: str | None) -> str:
    """The error message for a missing model, or a missing recipe."""
    if Path(recipe).suffix != ".toml" and (source is None or Path(source).suffix != ".toml"):
        first, plain = printed("run", "RECIPE.toml", recipe, source or ""), printed("rewrite", recipe, source or "OUT")
        return f"No recipe given: {recipe} is not a TOML file. Put the recipe first: {first}; without a recipe: {plain}"
    return "Give IN and OUT for one model, or --over MODELS --to FOLDER for many."


def run_fleet(
    recipe: str, over: Sequence[str], *, report_path: str | None, quiet: bool, verbose: bool, **settings: Any
) -> None:
    """Run a recipe on many models, and exit with the code of the result."""
    from surgeon.automation.fleet.run_many import run_many
    from surgeon.cli.progress import FleetProgress
    from surgeon.cli.report_file import emit, require_report_path

    require_report_path(report_path)
    with FleetProgress(quiet) as progress:
        dashboard = None if quiet else progress.dashboard
        settings |= {"to": settings["to"] or ".", "begins": progress.begins, "dashboard": dashboard}
        found = run_many(recipe, over, progress=progress.show_row, **settings)
    with closing(found):
        shown = (lambda: None) if quiet and found.ok else None
        emit([found], 0 if found.ok else REGRESSED, report_path=report_path, show=shown, verbose=verbose)
