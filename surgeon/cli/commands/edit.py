"""The command `surgeon edit`: changes a model by edits, in the order of the command line."""

import functools
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from surgeon.cli.help_page import HelpPage
from surgeon.cli.options import OF_SITES, DerivedOption, Spelling, derived_command
from surgeon.cli.report_file import run_and_report
from surgeon.errors import UsageError

if TYPE_CHECKING:
    from surgeon.pipeline.editing.edit import Edit

IN_OUT = {"source": "IN", "output": "OUT"}
SHOWN = ("report_path", "diff", "verbose", "quiet")
SETTINGS = ("check", "require_proof", "dry_run", "external_data", "force", "options", *SHOWN)
"""What `run_edits` takes besides edits and files."""
_META = "surgeon.edits"  # in a context's meta: the edits of the command line


@cache
def _options() -> tuple[click.Option, ...]:
    """An option for each installed edit."""
    from surgeon.edits.installed_edits import all_edits

    options = []
    for flag, kind in sorted(all_edits().items()):
        option = DerivedOption(
            [f"--{flag}", f"edit_{flag.replace('-', '_')}"],
            metavar=kind.metavar or None,
            is_flag=not kind.metavar,
            multiple=bool(kind.metavar),
            expose_value=False,
            help=(kind.__doc__ or "").strip().partition("\n")[0],
        )
        option.section = "Edits"
        options.append(option)
    return tuple(options)


class EditCommand(HelpPage):
    """A command that takes edits; installed edits are searched when it runs or prints its help."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options of all edits, followed by the others."""
        own_options = super().get_params(ctx)
        return [
            *(item for item in own_options if isinstance(item, click.Argument)),
            *_options(),
            *(item for item in own_options if not isinstance(item, click.Argument)),
        ]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Record the edits in the order of the command line, which click's own values do not have."""
        typed, _, order = self.make_parser(ctx).parse_args(list(args))
        remaining = {name: list(values) if isinstance(values, list) else [values] for name, values in typed.items()}
        ctx.meta[_META] = [
            (item, remaining[item.name].pop(0)) for item in order if item in _options() and item.name in remaining
        ]
        return super().parse_args(ctx, args)


def single_input_or_output(source: str, side: str, instead: str = "") -> str:
    """The name of the only input or output of a model.  Raises UsageError for a model with another number.

    instead: the command for several, if no option chooses one.
    """
    from surgeon.file.model import Model
    from surgeon.pipeline.editing.draft import ModelDraft

    with Model.open(source) as model:
        draft = ModelDraft(model)
        names = [value.name for value in (draft.inputs if side == "input" else draft.graph.output)]
    if len(names) != 1:
        found = f"it has {', '.join(names)}" if names else "it has none"
        how = f"use surgeon {instead}" if instead else f"with --{side}"
        raise UsageError(f"Say which {side} of {source} is meant, {how}; {found}.")
    return names[0]


def edit_command(
    of: str, positional: Mapping[str, str] = IN_OUT, cls: type[click.Command] = HelpPage, **spelled: Spelling
) -> "Callable[[Callable[[click.Context], list[Edit]]], click.Command]":
    """Make a command of a function that returns the edits of a command line: they change IN, and OUT is written.

    Arguments as of `derived_command`.
    """

    def decorate(edits_of: "Callable[[click.Context], list[Edit]]") -> click.Command:
        @functools.wraps(edits_of)
        def run(source: str, output: str, **given: Any) -> None:
            settings = {name: given[name] for name in SETTINGS}
            run_edits(edits_of(click.get_current_context()), source, output, **settings)

        left = f"ctx edits layers {OF_SITES}"
        return derived_command(of, positional, without=left, shared=" ".join(SHOWN), cls=cls, **spelled)(run)

    return decorate


@edit_command("edit", cls=EditCommand, dims=Spelling("--check-dim"))
def edit(ctx: click.Context) -> "list[Edit]":
    """Apply edits to IN in the given order, compare the result with IN, and write OUT.

    The rest of the file stays byte for byte the same, and weights are not read.  IN and OUT may be the same file.
    Example: surgeon edit in.onnx out.onnx --rename images=pixels
    Exit codes: 1 OUT computes different results from IN
    """
    from surgeon.edits.installed_edits import all_edits

    kinds = all_edits()
    typed = [(item.opts[0].removeprefix("--"), text) for item, text in ctx.meta[_META]]
    found = [kinds[flag].parse("" if text is True else text) for flag, text in typed]
    if not found:
        raise UsageError("No edits given. Example: --rename images=pixels (--help lists all edits).")
    return found


def run_edits(edits: "Sequence[Edit]", source: str, output: str, **settings: Any) -> None:
    """Run edits for a command, and print the report.  Raises as `surgeon.edit`."""
    from surgeon.pipeline.editing.edit_group import edit as run

    run_and_report(lambda _, **given: run(source, edits, output=output, **given), (source, output), **settings)
