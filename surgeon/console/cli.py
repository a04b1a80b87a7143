"""The command line: arguments in, exit code out.

0  fine
1  a check failed, or proved too little with --require-proof; nothing was written
2  bad input or usage
3  --expect was not met; nothing was written
"""

import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surgeon.console.guard import Commands, Pair, reading, writing
from surgeon.errors import CheckFailed, ExpectationUnmet, ModelFileError, UsageError

if TYPE_CHECKING:
    from surgeon.prove.result import CheckResult
    from surgeon.rewriting.checking import CheckOptions
    from surgeon.rewriting.result import Report

SEARCHED = 1 << 26  # bytes of a model file up to which searching it for a word is faster than parsing it
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
@reading
def rewrite(
    source: str,
    output: str,
    names: Sequence[str],
    report_path: str | None,
    quiet: bool,
    diff: bool,
    dry_run: bool,
    expect: Sequence[tuple[str, int]],
    options: "CheckOptions",
    **settings: Any,
) -> None:
    """Replace what the rules recognise in IN, check the result, and write OUT.

    IN and OUT may be the same file.  Example: surgeon rewrite in.onnx out.onnx --rules gelu
    """
    from surgeon.rewriting.rewrite import rewrite as run

    if report_path is not None:
        _check_report_path(report_path, source, output)

    def show(report: "Report", written: bool) -> None:
        if report_path is not None:
            _write_report(report, report_path, written)
        if not quiet:
            from surgeon.console.report import print_report

            print_report(report, sys.stdout, diff=diff, written=written)

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
    _say_after(report.check, output, settings["external_data"], quiet, dry_run)


def _check_report_path(path: str, source: str, output: str) -> None:
    """Refuse, before any work, a report that could not be written or would overwrite what is no report."""
    real = os.path.realpath(path)
    if any(real == os.path.realpath(model) or _same_file(real, model) for model in (source, output)):
        raise UsageError(f"--report names {path}, which is the model; name another file.")
    if not os.path.isdir(os.path.dirname(real)):
        raise ModelFileError(f"The folder of the report {path} does not exist: create it first.")
    if os.path.isdir(real):
        raise ModelFileError(f"{path} is a folder: name the file for the report.")
    is_there = os.path.exists(real)
    if is_there and not stat.S_ISREG(os.stat(real).st_mode):
        return  # a terminal or a pipe; opening it on trial would tell the reader that all is over
    try:
        if is_there and not _is_report(real):
            raise UsageError(f"--report names {path}, which exists and is no report: name another file or remove it.")
        if _is_data_file(real, source, output):
            raise UsageError(f"--report names {path}, which is a data file of the model; name another file.")
        os.close(os.open(real, os.O_WRONLY | os.O_CREAT, 0o666))
        if not is_there:
            os.unlink(real)
    except OSError as error:
        raise ModelFileError(f"The report {path} cannot be written ({error.strerror}): name another file.") from None


def _same_file(one: str, other: str) -> bool:
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)


def _is_report(path: str) -> bool:
    """Whether a file is empty or begins as a report does."""
    with open(path, "rb") as file:
        head = file.read(64)
    return not head or re.match(rb'\s*\{\s*"source"\s*:', head) is not None


def _is_data_file(path: str, source: str, output: str) -> bool:
    """Whether the model keeps data, or will keep them, in the file at this real path."""
    if not os.path.isfile(source):
        return False  # reading it will say why
    if os.path.getsize(source) <= SEARCHED:
        with open(source, "rb") as file:
            if os.path.basename(path).encode() not in file.read():
                return False
    from surgeon.file.external import extent_of
    from surgeon.file.model import Model

    with Model.open(source) as model:
        locations = {extent_of(tensor).location for tensor in model.external_tensors}
    folders = (os.path.dirname(source), os.path.dirname(output))
    return any(path == os.path.realpath(os.path.join(folder, name)) for folder in folders for name in locations)


def _say_after(check: "CheckResult | None", output: str, data: str, quiet: bool, dry_run: bool = False) -> None:
    """Say what nobody may overlook: no proof, even where the rest is quiet, and files that onnx.load refuses."""
    if quiet:
        if check is not None and check.outcome.value == "unproved":
            click.echo(f"UNPROVED: {check.reason}", err=True)
    elif data == "link" and not dry_run:
        from surgeon.file.external import files
        from surgeon.file.model import Model

        with Model.open(output) as model:
            found = files(Path(output).parent, model.external_tensors)
        if any(os.stat(path).st_nlink > 1 for path in found.values()):
            click.echo("link     the data files have two names now: ONNX Runtime loads the model, onnx.load refuses it")


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
@click.argument("source", metavar="MODEL")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
@reading
def inspect(source: str, as_json: bool) -> None:
    """Show opsets, ops, custom ops, inputs, outputs and the size of the weights of MODEL.  Payloads are not read."""
    from surgeon.console.inspection import inspect_model, print_inspection

    found = inspect_model(source)
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
@reading
def upgrade(
    source: str,
    output: str,
    opset: int,
    quiet: bool,
    options: "CheckOptions",
    **settings: Any,
) -> None:
    """Raise the opset of IN where no node would change its meaning, check the result, and write OUT."""
    from surgeon.console.report import print_upgrade
    from surgeon.upgrading.upgrade import Upgrade
    from surgeon.upgrading.upgrade import upgrade as run

    try:
        with _progress(quiet):
            done = run(source, opset, output, options=options, **settings)
    except CheckFailed as error:
        if not quiet and isinstance(error.report, Upgrade):
            print_upgrade(error.report, sys.stdout, written=False)
        raise
    if not quiet:
        print_upgrade(done, sys.stdout, written=True)
    _say_after(done.check, output, settings["external_data"], quiet)
