"""The command line: arguments in, exit code out.

0  fine
1  a check failed, or proved too little with --require-proof; nothing was written
2  bad input or usage
3  --expect was not met; nothing was written
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from surgeon.console.guard import Commands, Pair, writing
from surgeon.errors import CheckFailed, ExpectationUnmet, ModelFileError, UsageError

if TYPE_CHECKING:
    from surgeon.rewriting.result import Report

TARGETS = ("ort", "onnx", "contrib", "decomposed")


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        click.echo(f"surgeon {version('surgeon')}")
        ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version and leave."
)
def main() -> None:
    """Graph surgery for exported ONNX models: every change you asked for, nothing else, and each one checked.

    Exit codes: 0 fine, 1 a check failed, 2 bad input or usage, 3 --expect not met.
    """


@main.command(short_help="Replace what rules recognise, check, and write.")
@click.argument("source", metavar="IN")
@click.argument("output", metavar="OUT")
@click.option(
    "--rules",
    "-r",
    "names",
    multiple=True,
    required=True,
    metavar="NAMES",
    help="Rules by name, with commas: gelu, ./my_rules.py, ./my_rules.py:name, package.module:name; "
    "-name leaves one out.",
)
@click.option(
    "--target", type=click.Choice(TARGETS), default="ort", show_default=True, help="Where the model is to run."
)
@click.option("--only", multiple=True, metavar="PATTERN", help="Rewrite only where a node's name fits.")
@click.option("--skip", multiple=True, metavar="PATTERN", help="Leave alone what a node's name fits.")
@click.option("--expect", type=Pair(), multiple=True, help="Write only if a rule fires this many times, else exit 3.")
@click.option("--dry-run", is_flag=True, help="Say what would happen and write nothing.")
@click.option("--diff", is_flag=True, help="Print the nodes before and after, site by site.")
@click.option("--report", "report_path", metavar="FILE", help="Write the report as JSON.")
@writing
def rewrite(
    source: str,
    output: str,
    names: Sequence[str],
    report_path: str | None,
    quiet: bool,
    diff: bool,
    dry_run: bool,
    expect: Sequence[tuple[str, int]],
    dims: Sequence[tuple[str, int]],
    seed: int,
    custom_ops: Sequence[str],
    rtol: float | None,
    atol: float | None,
    **settings: Any,
) -> None:
    """Replace what the rules recognise in IN, check the result, and write OUT.

    IN and OUT may be the same file.  Example: surgeon rewrite in.onnx out.onnx --rules gelu
    """
    from surgeon.rewriting.checking import CheckOptions
    from surgeon.rewriting.rewrite import rewrite as run

    _check_report_path(report_path, (source, output))

    def show(report: "Report", written: bool) -> None:
        if report_path is not None:
            _write_report(report, report_path, written)
        if not quiet:
            from surgeon.console.report import print_report

            print_report(report, sys.stdout, diff=diff, written=written)

    options = CheckOptions(dict(dims), seed, custom_ops, rtol, atol)
    try:
        with _progress(quiet) as progress:
            _, report = run(
                source,
                names,
                output=output,
                expect=dict(expect),
                options=options,
                progress=progress,
                dry_run=dry_run,
                **settings,
            )
    except (CheckFailed, ExpectationUnmet) as error:
        show(error.report, False)  # type: ignore[arg-type]  # errors stands below result and cannot name its type
        raise
    show(report, not dry_run)


def _check_report_path(path: str | None, models: Sequence[str]) -> None:
    """Refuse, before any work, a report that could not be written or would overwrite a model."""
    if path is None:
        return
    if any(os.path.realpath(path) == os.path.realpath(model) for model in models):
        raise UsageError(f"--report names {path}, which is the model; name another file.")
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise ModelFileError(f"The folder of the report {path} does not exist: create it first.")
    if os.path.isdir(path):
        raise ModelFileError(f"{path} is a folder: name the file for the report.")


def _write_report(report: "Report", path: str, written: bool) -> None:
    import json

    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**report.to_dict(), "written": written}, file, indent=1, ensure_ascii=False)
            file.write("\n")
    except OSError as error:
        raise ModelFileError(f"The report {path} cannot be written: {error.strerror}.") from None


@contextmanager
def _progress(quiet: bool) -> "Iterator[Callable[[str, int], None] | None]":
    """A callback that shows progress on a terminal once the work takes long."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from surgeon.console.progress import Spinner

    with Spinner() as spinner:
        yield spinner.update


@main.command(short_help="List the rules, or print the manual of one.")
@click.argument("name", required=False)
def rules(name: str | None) -> None:
    """List the rules, or print the manual of those that NAME leads to.

    NAME is what --rules takes: gelu, ./my_rules.py, package.module:name.
    """
    from surgeon.console.manual import print_list, print_manual
    from surgeon.rewriting.catalogue import all_rules, flat, resolve

    if name is None:
        print_list(all_rules(), sys.stdout)
        return
    for place, rule in enumerate(flat(resolve(name))):
        if place:
            click.echo()
        print_manual(rule, sys.stdout)


@main.command(short_help="Show what is in a model.")
@click.argument("model", metavar="MODEL")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def inspect(model: str, as_json: bool) -> None:
    """Show opsets, ops, custom ops, inputs, outputs and the size of the weights of MODEL.  Payloads are not read."""
    from surgeon.console.inspection import inspect_model, print_inspection

    found = inspect_model(model)
    if as_json:
        import json

        click.echo(json.dumps(found.to_dict(), indent=1, ensure_ascii=False))
    else:
        print_inspection(found, sys.stdout)


@main.command(short_help="Raise the opset without changing what any node means.")
@click.argument("source", metavar="IN")
@click.argument("output", metavar="OUT")
@click.option("--opset", type=int, required=True, metavar="N", help="The version of ai.onnx to raise the model to.")
@writing
def upgrade(
    source: str,
    output: str,
    opset: int,
    quiet: bool,
    dims: Sequence[tuple[str, int]],
    seed: int,
    custom_ops: Sequence[str],
    rtol: float | None,
    atol: float | None,
    **settings: Any,
) -> None:
    """Raise the opset of IN where no node would change its meaning, check the result, and write OUT."""
    from surgeon.rewriting.checking import CheckOptions
    from surgeon.upgrading.upgrade import Upgrade, print_upgrade
    from surgeon.upgrading.upgrade import upgrade as run

    options = CheckOptions(dict(dims), seed, custom_ops, rtol, atol)
    try:
        with _progress(quiet):
            done = run(source, opset, output, options=options, **settings)
    except CheckFailed as error:
        if not quiet and isinstance(error.report, Upgrade):
            print_upgrade(error.report, sys.stdout, written=False)
        raise
    if not quiet:
        print_upgrade(done, sys.stdout, written=True)
