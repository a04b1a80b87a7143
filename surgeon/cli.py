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

from surgeon.errors import CheckFailed, ModelFileError, SurgeonError, UsageError

if TYPE_CHECKING:
    from surgeon.result import Report
    from surgeon.rule import Rule

CHECK_FAILED, BAD_INPUT, UNEXPECTED, INTERRUPTED, BROKEN_PIPE = 1, 2, 3, 130, 141
TARGETS = ("ort", "onnx", "contrib", "decomposed")


class _Failure(click.ClickException):
    """One line on stderr, and an exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code


class _Commands(click.Group):
    """A group whose commands turn what went wrong into one sentence and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except CheckFailed as error:
            raise _Failure(str(error), CHECK_FAILED) from None
        except SurgeonError as error:
            raise _Failure(str(error), BAD_INPUT) from None
        except MemoryError:
            raise _Failure("There is not enough memory; close other programs or use a larger machine.",
                           BAD_INPUT) from None
        except BrokenPipeError:
            # Nobody reads on: leave as a program does that the signal ends, and keep Python's last flush quiet.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            ctx.exit(BROKEN_PIPE)
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            raise _Failure(f"{place}{error.strerror or error}; nothing more could be done.", BAD_INPUT) from None
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            ctx.exit(INTERRUPTED)


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        click.echo(f"surgeon {version('surgeon')}")
        ctx.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version,
              help="Print the version and leave.")
def main() -> None:
    """Graph surgery for exported ONNX models: every change you asked for, nothing else, and each one checked.

    Exit codes: 0 fine, 1 a check failed, 2 bad input or usage, 3 --expect not met.
    """


class _Pair(click.ParamType):
    """NAME=NUMBER."""

    name = "NAME=N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Return the name and the number."""
        if isinstance(value, tuple):
            return value
        name, _, number = str(value).rpartition("=")
        if not name or not number.strip().isdecimal():
            self.fail(f"{value!r} is not of the form NAME=NUMBER", param, ctx)
        return name.strip(), int(number)


def _shared(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that checks and writes a model."""
    options = (
        click.option("--check", type=click.Choice(["model", "none"]), default="model", show_default=True,
                     help="Run both models under ONNX Runtime and compare, or not."),
        click.option("--require-proof", is_flag=True, help="Treat a result that cannot be proved as a failed one."),
        click.option("--external-data", type=click.Choice(["auto", "share", "copy", "link", "inline"]),
                     default="auto", show_default=True,
                     help="Data files: share them in the same folder and copy them elsewhere (auto), always share or "
                     "copy, hard link (onnx.load refuses such models), or put them into the model."),
        click.option("--force", is_flag=True, help="Overwrite a data file of other content at the target."),
        click.option("--dim", "dims", type=_Pair(), multiple=True, help="Size of a named dimension in the check."),
        click.option("--seed", type=int, default=0, show_default=True, help="Seed of the check's random inputs."),
        click.option("--custom-ops", multiple=True, metavar="LIB", help="Library of custom ops for ONNX Runtime."),
        click.option("--rtol", type=float, help="Relative tolerance in place of the dtype's own."),
        click.option("--atol", type=float, help="Absolute tolerance in place of the dtype's own."),
        click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@main.command()
@click.argument("source", metavar="IN")
@click.argument("output", metavar="OUT")
@click.option("--rules", "-r", multiple=True, required=True, metavar="NAMES",
              help="Rules by name, with commas: gelu, ./my_rules.py, ./my_rules.py:name, package.module:name; "
              "-name leaves one out.")
@click.option("--target", type=click.Choice(TARGETS), default="ort", show_default=True,
              help="Where the model is to run.")
@click.option("--only", multiple=True, metavar="PATTERN", help="Rewrite only where a node's name fits.")
@click.option("--skip", multiple=True, metavar="PATTERN", help="Leave alone what a node's name fits.")
@click.option("--expect", type=_Pair(), multiple=True, help="Write only if a rule fires this many times, else exit 3.")
@click.option("--dry-run", is_flag=True, help="Say what would happen and write nothing.")
@click.option("--diff", is_flag=True, help="Print the nodes before and after, site by site.")
@click.option("--report", "report_path", metavar="FILE", help="Write the report as JSON.")
@_shared
def rewrite(source: str, output: str, report_path: str | None, quiet: bool, diff: bool, **given: Any) -> None:
    """Replace what the rules recognise in IN, check the result, and write OUT.

    IN and OUT may be the same file.  Example: surgeon rewrite in.onnx out.onnx --rules gelu
    """
    _check_report_path(report_path, (source, output))
    selection = _selection(given.pop("rules"))

    def show(report: "Report") -> None:
        report.selection = {name: tuple(rule.name for rule in rules) for name, rules in selection.items()}
        if report_path is not None:
            _write_report(report, report_path)
        if not quiet:
            from surgeon.report import print_report

            print_report(report, sys.stdout, diff=diff, dry_run=given["dry_run"])

    try:
        show(_run(source, output, selection, show, quiet, **given))
    except CheckFailed as error:
        show(error.report)  # type: ignore[arg-type]  # errors stands below result and cannot name its type
        raise


def _run(
    source: str, output: str, selection: dict[str, "tuple[Rule, ...]"], show: "Callable[[Report], None]", quiet: bool,
    *, expect: Sequence[tuple[str, int]], dims: Sequence[tuple[str, int]], seed: int, custom_ops: Sequence[str],
    rtol: float | None, atol: float | None, dry_run: bool, **settings: Any,
) -> "Report":
    """One rewrite; with --expect it is tried first without writing."""
    from surgeon.catalogue import flat
    from surgeon.rewrite import CheckOptions
    from surgeon.rewrite import rewrite as run

    rules = flat(selection)
    options = CheckOptions(dict(dims), seed, custom_ops, rtol, atol)
    with _progress(quiet) as progress:
        if expect:
            _, report = run(source, rules, dry_run=True, progress=progress, **settings)
            unmet = _unmet(report, selection, expect)
            if unmet:
                show(report)
                raise _Failure(f"{unmet}; nothing was written.", UNEXPECTED)
            if dry_run:
                return report
        return run(source, rules, output=output, dry_run=dry_run, options=options, progress=progress, **settings)[1]


def _selection(names: Sequence[str]) -> dict[str, "tuple[Rule, ...]"]:
    """The rules asked for, less those that are named with a minus."""
    from surgeon.catalogue import resolve

    parts = [part.strip() for name in names for part in name.split(",") if part.strip()]
    wanted = resolve([part for part in parts if not part.startswith("-")])
    less = [part[1:] for part in parts if part.startswith("-")]
    if not less:
        return wanted
    out = {rule for rules in resolve(less).values() for rule in rules}
    absent = out.difference(*wanted.values())
    if absent:
        raise UsageError(f"Rule {min(rule.name for rule in absent)!r} is left out but was not asked for.")
    left = {name: tuple(rule for rule in rules if rule not in out) for name, rules in wanted.items()}
    if not any(left.values()):
        raise UsageError("Every rule that was asked for is left out again.")
    return left


def _unmet(
    report: "Report", selection: dict[str, "tuple[Rule, ...]"], expect: Sequence[tuple[str, int]]
) -> str:
    """What --expect asks for and the run did not find, in words."""
    known = {name: {rule.name for rule in rules} for name, rules in selection.items()}
    known.update({rule.name: {rule.name} for rules in selection.values() for rule in rules if rule.name not in known})
    wrong = []
    for name, wanted in expect:
        if name not in known:
            raise UsageError(f"--expect names {name!r}, which is not run; there are {', '.join(known)}.")
        found = sum(site.rule in known[name] for site in report.sites)
        if found != wanted:
            wrong.append(f"expected {name}={wanted}, found {found}")
    return "; ".join(wrong)


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


def _write_report(report: "Report", path: str) -> None:
    import json

    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(report.to_dict(), file, indent=1, ensure_ascii=False)
            file.write("\n")
    except OSError as error:
        raise ModelFileError(f"The report {path} cannot be written: {error.strerror}.") from None


@contextmanager
def _progress(quiet: bool) -> "Iterator[Callable[[str, int], None] | None]":
    """A callback that shows progress on a terminal once the work takes long."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from surgeon.progress import Spinner

    with Spinner() as spinner:
        yield spinner.update


@main.command()
@click.argument("name", required=False)
def rules(name: str | None) -> None:
    """List the rules, or print the manual of those that NAME leads to.

    NAME is what --rules takes: gelu, ./my_rules.py, package.module:name.
    """
    from surgeon.catalogue import all_rules, flat, resolve
    from surgeon.manual import print_list, print_manual

    if name is None:
        print_list(all_rules(), sys.stdout)
        return
    for place, rule in enumerate(flat(resolve(name))):
        if place:
            click.echo()
        print_manual(rule, sys.stdout)


@main.command()
@click.argument("model", metavar="MODEL")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def inspect(model: str, as_json: bool) -> None:
    """Show opsets, ops, custom ops, inputs, outputs and the size of the weights.  Payloads are not read."""
    from surgeon.inspection import inspect_model, print_inspection

    found = inspect_model(model)
    if as_json:
        import json

        click.echo(json.dumps(found.to_dict(), indent=1, ensure_ascii=False))
    else:
        print_inspection(found, sys.stdout)
