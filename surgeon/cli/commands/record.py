"""The command `surgeon record`: appends a command line to a recipe."""

import inspect
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surgeon.cli.help_page import HelpPage
from surgeon.cli.options import OPTIONAL, Spelling, derived_command
from surgeon.cli.report_file import emit
from surgeon.display.registry import CommandResult
from surgeon.errors import UsageError
from surgeon.text import did_you_mean, format_count

if TYPE_CHECKING:
    from surgeon.automation.recipes.recipe import Step

RECORDED = ("append", "edit", "extract", "insert", "prepend", "rewrite")


class RecordCommand(HelpPage):
    """A command that does not parse the options of the command line to record."""

    ignore_unknown_options, allow_interspersed_args = True, False


@derived_command(
    positional={"recipe": "RECIPE", "command": "", "arguments": "IN OUT [OPTIONS]..."},
    cls=RecordCommand,
    command=Spelling(type=click.Choice(RECORDED)),
    arguments=Spelling(type=click.UNPROCESSED, default=OPTIONAL),
)
def record(recipe: str, command: str, arguments: Sequence[str]) -> None:
    """Append the edits and rules of a command line to RECIPE, which is created if it does not exist.

    The command line is not run, and no model is read.
    Example: surgeon record deploy.toml rewrite in.onnx out.onnx --rules gelu
    """
    from surgeon.automation.recipes.recipe import Recipe, step_text, write_recipe
    from surgeon.automation.recipes.recipe_file import load_recipe

    ctx = click.get_current_context()
    group = ctx.find_root().command
    found = group.get_command(ctx, command) if isinstance(group, click.Group) else None
    assert found is not None
    inner = found.make_context(command, list(arguments), parent=ctx.parent)
    steps, head = _steps(command, inner)
    path, written = Path(recipe), list(map(step_text, steps))
    if path.exists():
        before = load_recipe(path)
        if (before.target, before.ep) != (head["target"], head["ep"]) and command == "rewrite":
            raise UsageError(f"{recipe} is for target {before.target}. Record another target in a separate recipe.")
        text = path.read_text(encoding="utf-8").rstrip() + "\n" + "".join(written)
    else:
        text = Recipe(steps, **head).text()
    write_recipe(path, text)
    data = {"recipe": recipe, "steps": written}
    emit([CommandResult("record", data, [f"{recipe}: {format_count(len(steps), 'step')} more"])])


def _require_rules(names: Sequence[str], expected: Iterable[str]) -> None:
    """Raise RuleError or UsageError for unknown rule names; files and modules are not read here."""
    from surgeon.rules.catalogue import resolve_with_edits, unique_rules

    given = [name.strip() for item in names for name in item.split(",")]
    plain = [name for name in given if not set(name) & set("./\\")]
    found, tails = resolve_with_edits(plain) if any(not name.startswith("-") for name in plain) else ({}, [])
    known = [*found, *tails, *(rule.name for rule in unique_rules(found))]
    unknown = next((name for name in expected if name not in known), None) if plain == given else None
    if unknown is not None:
        raise UsageError(f"--expect has a count for {unknown!r}, but no such rule runs; {did_you_mean(unknown, known)}")


def _steps(command: str, ctx: click.Context) -> "tuple[list[Step], dict[str, Any]]":
    """The steps of a parsed command line, and its target."""
    from surgeon.automation.recipes.recipe import Rules
    from surgeon.cli.commands import append
    from surgeon.pipeline.acceptance.kernel_support import resolve_provider

    head: dict[str, Any] = {"target": "ort", "ep": None}
    given = ctx.params
    if command != "rewrite":
        callback = append.requested_edits if command == "append" else ctx.command.callback
        assert callback is not None
        return list(inspect.unwrap(callback)(ctx)), head
    if not given["rules"] or given["plugins"]:
        raise UsageError("A recipe needs rules by name: use --rules. For plugins, write a rule file.")
    if given["measure"]:
        raise UsageError("A recipe does not measure. Record the --rules that the run with --measure prints instead.")
    if given["ep_library"] is not None:
        raise UsageError("A recipe has no plugin of an execution provider. Leave out --ep-library.")
    resolve_provider(given["target"], given["ep"])
    _require_rules(given["rules"], dict(given["expect"]))
    head = {"target": given["target"], "ep": given["ep"]}
    rules = Rules(
        ",".join(given["rules"]),
        tuple(name for item in given["inline"] for name in item.split(",") if name),
        tuple(given["only"]),
        skip=tuple(given["skip"]),
        approximate=given["approximate"],
        upgrade=given["upgrade"],
        expect=dict(given["expect"]),
        fold_limit=given["fold_limit"],
    )
    return [rules], head
