"""The command `surgeon edit`: changes a model by edits, in the order of the command line."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from surgeon.cli.options import DerivedCommand, DerivedOption, Spelling, derived_command
from surgeon.cli.report_file import run_and_report
from surgeon.display.terminal.sanitise import sanitise
from surgeon.errors import UsageError

if TYPE_CHECKING:
    from surgeon.pipeline.editing.edit import Edit
    from surgeon.pipeline.reports.edit_report import EditReport
    from surgeon.proof.check_options import CheckOptions

_META = "surgeon.edits"  # in a context's meta: the edits of the command line


@cache
def _options() -> tuple[click.Option, ...]:
    """An option for each installed edit."""
    from surgeon.edits.installed_edits import all_edits

    return tuple(
        DerivedOption(
            [f"--{flag}", f"edit_{flag.replace('-', '_')}"],
            metavar=kind.metavar or None,
            is_flag=not kind.metavar,
            multiple=bool(kind.metavar),
            expose_value=False,
            help=(kind.__doc__ or "").strip().partition("\n")[0],
        )
        for flag, kind in sorted(all_edits().items())
    )


class EditCommand(DerivedCommand):
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


def requested_edits(ctx: click.Context) -> "list[Edit]":
    """The edits of the command line, in order.  Raises UsageError for an invalid edit, or if there are none."""
    from surgeon.edits.installed_edits import all_edits

    kinds = all_edits()
    typed = [(item.opts[0].removeprefix("--"), text) for item, text in ctx.meta[_META]]
    found = [kinds[flag].parse("" if text is True else text) for flag, text in typed]
    if not found:
        raise UsageError("Nothing is asked for; name an edit, as in --rename images=pixels; --help has all.")
    return found


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


@derived_command(
    "edit",
    {"source": "IN", "output": "OUT"},
    without="edits layers proof_time jobs",
    shared="report_path diff quiet",
    cls=EditCommand,
    dims=Spelling("--check-dim"),
)
def edit(source: str, output: str, options: "CheckOptions", **settings: Any) -> None:
    """Change IN as the edits say, in the order in which they stand, hold the result against IN, and write OUT.

    What no edit touches stays byte for byte, and weights are not read.  IN and OUT may be the same file.
    Example: surgeon edit in.onnx out.onnx --rename images=pixels --add-output features
    """
    run_edits(requested_edits(click.get_current_context()), source, output, options=options, **settings)


def run_requested_edits(
    edits_of: "Callable[[click.Context], list[Edit]]",
    own_options: Sequence[str],
    source: str,
    output: str,
    **settings: Any,
) -> None:
    """Run the edits that a command requests.  own_options: the options that describe the edits."""
    other_settings = {name: value for name, value in settings.items() if name not in own_options}
    run_edits(edits_of(click.get_current_context()), source, output, **other_settings)


def run_edits(
    edits: "Sequence[Edit]",
    source: str,
    output: str,
    *,
    report_path: str | None,
    quiet: bool,
    diff: bool,
    **settings: Any,
) -> None:
    """Run edits for a command, and print the report.  Raises as `surgeon.edit`."""
    from surgeon.pipeline.editing.edit_group import edit as run

    report_edit(
        lambda: run(source, edits, output=output, **settings),
        (source, output),
        report_path=report_path,
        quiet=quiet,
        diff=diff,
    )


def _diff_lines(report: "EditReport") -> Iterator[str]:
    """The changed lines of the model's listing."""
    from surgeon.display.content.edit import listing_diff_lines

    return listing_diff_lines(report)


def report_edit(
    run: Callable[[], tuple[Any, Any]],
    files: Sequence[str],
    report_path: str | None,
    quiet: bool,
    diff: bool = False,
) -> None:
    """Run an edit as `run_and_report` does, and print on stderr the warnings of a quiet run."""
    report = run_and_report(lambda _: run(), files, report_path, quiet=quiet, diff_of=_diff_lines if diff else None)
    check = getattr(report, "check", report)  # a conversion is its own result
    if quiet and report.outcome == "unproved" and check is not None:
        click.echo(sanitise(f"UNPROVED: {check.reason}"), err=True)
