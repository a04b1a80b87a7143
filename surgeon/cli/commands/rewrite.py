"""The command `surgeon rewrite`: runs rules on a model."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from surgeon.cli.options import derived_command
from surgeon.cli.report_file import run_and_report
from surgeon.display.terminal.sanitise import sanitise
from surgeon.errors import UsageError

if TYPE_CHECKING:
    from surgeon.pipeline.reports.rewrite_report import Report
    from surgeon.proof.check_options import CheckOptions
    from surgeon.rules.rule import Rule


@derived_command("rewrite", {"source": "IN", "output": "OUT"}, without="progress")
def rewrite(
    source: str,
    output: str,
    rules: Sequence[str],
    inline: Sequence[str],
    report_path: str | None,
    quiet: bool,
    diff: bool,
    verbose: bool,
    options: "CheckOptions",
    plugins: Sequence[str] = (),
    **settings: Any,
) -> None:
    """Replace what the rules recognise in IN, prove each replacement, and write OUT.

    IN and OUT may be the same file.  Example: surgeon rewrite in.onnx out.onnx --rules gelu

    Args:
        expect: write only if a rule fires this many times, by name; else the exit code is 3.
        keep_going: end with exit code 0 although sites were rolled back.
        plugins: write a placeholder as a TensorRT plugin: mylib::op=MyPlugin:1, or ...:1,attribute=field.
    """
    from surgeon.pipeline.rewriting.rewrite import rewrite as run

    if not rules and not inline and not plugins:
        raise UsageError("Nothing is asked for; name rules with --rules, or local functions with --inline.")
    requested: list[str | Rule] = [*_plugin_rules(plugins, settings["target"]), *rules]
    settings["inline"] = [name for item in inline for name in item.split(",") if name]

    report = run_and_report(
        lambda note: run(source, requested, output=output, options=options, progress=note, **settings),
        (source, output),
        report_path,
        quiet=quiet,
        verbose=verbose,
        diff_of=_diff_lines if diff else None,
    )
    if quiet:
        _print_warnings(report)


def _diff_lines(report: "Report") -> Iterator[str]:
    """The nodes of each site before and after."""
    from surgeon.display.content.site import diff_lines

    return diff_lines(report.sites)


def _plugin_rules(specs: Sequence[str], target: str) -> "list[Rule]":
    """The rules that write placeholders as plugins."""
    if not specs:
        return []
    if target != "tensorrt":
        raise UsageError(f"Plugins are TensorRT's, and the target is {target}; give --target tensorrt.")
    from surgeon.rules.plugin_rule import plugin_rules

    return plugin_rules(specs)


def _print_warnings(report: "Report") -> None:
    """Print on stderr the warnings of a quiet run that succeeds."""
    from surgeon.display.content.near_misses import warning_lines
    from surgeon.pipeline.rewriting.rollback import rollback_message

    if report.rolled_back:
        click.echo(sanitise(f"FAILED: {rollback_message(report)}"), err=True)
    for reason in dict.fromkeys(report.doubts):
        click.echo(sanitise(f"UNPROVED: {reason}"), err=True)
    for line in warning_lines(report):
        click.echo(sanitise(line), err=True)
