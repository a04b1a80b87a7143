"""The command `surgeon rewrite`: runs rules on a model."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from surgeon.cli.options import NameAndNumber, Opset, check_and_output_options, explain_invalid_names
from surgeon.cli.param_types import TargetName
from surgeon.cli.report_file import report_option, run_and_report
from surgeon.display.terminal.sanitise import sanitise
from surgeon.errors import UsageError

if TYPE_CHECKING:
    from surgeon.pipeline.reports.rewrite_report import Report
    from surgeon.proof.check_options import CheckOptions
    from surgeon.rules.rule import Rule


@click.command(short_help="Replace what rules recognise, prove it, and write.")
@click.argument("source", metavar="IN")
@click.argument("output", metavar="OUT")
@click.option(
    "--rules",
    "-r",
    "names",
    multiple=True,
    metavar="NAMES",
    help="Rules by name, with commas: gelu, ./my_rules.py, ./my_rules.py:name, package.module:name; "
    "-name leaves one out.",
)
@click.option(
    "--inline",
    multiple=True,
    metavar="NAMES",
    help="Write out the calls of local functions before the rules run, by name (domain::Name), or of all.",
)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="OP=PLUGIN[:VERSION]",
    help="Write a placeholder as a TensorRT plugin: mylib::op=MyPlugin:1, or ...:1,attribute=field; repeatable.",
)
@click.option(
    "--target", type=TargetName(), default="ort", show_default=True, help="Where the model is to run."
)
@click.option(
    "--ep",
    metavar="NAME",
    help="The execution provider that runs the model: cpu, cuda, dml, tensorrt, or any; write only what it has kernels "
    "for.  [default: cpu where the target is ONNX Runtime, tensorrt where it is TensorRT, else any]",
)
@click.option("--only", multiple=True, metavar="PATTERN", help="Rewrite only where a node's name fits.")
@click.option("--skip", multiple=True, metavar="PATTERN", help="Leave alone what a node's name fits.")
@click.option(
    "--expect", type=NameAndNumber(), multiple=True, help="Write only if a rule fires this many times, else exit 3."
)
@click.option("--dry-run", is_flag=True, help="Say what would happen and write nothing.")
@click.option("--diff", is_flag=True, help="Print the nodes before and after, site by site.")
@report_option("the report")
@click.option("--keep-going", is_flag=True, help="End with exit code 0 although sites were rolled back.")
@click.option("--approximate", is_flag=True, help="Also run rules that change numbers beyond rounding.")
@click.option(
    "--upgrade",
    type=Opset(),
    default="none",
    show_default=True,
    metavar="auto|N",
    help="Raise the opset first, where every node keeps its meaning: to N, or to the least at which all rules fire.",
)
@click.option("--verbose", "-v", is_flag=True, help="Say of every rule what kept it from firing.")
@check_and_output_options("sites", "model", "both", "none")
@explain_invalid_names
def rewrite(
    source: str,
    output: str,
    names: Sequence[str],
    inline: Sequence[str],
    plugins: Sequence[str],
    report_path: str | None,
    quiet: bool,
    diff: bool,
    verbose: bool,
    expect: Sequence[tuple[str, int]],
    options: "CheckOptions",
    **settings: Any,
) -> None:
    """Replace what the rules recognise in IN, prove each replacement, and write OUT.

    IN and OUT may be the same file.  Example: surgeon rewrite in.onnx out.onnx --rules gelu
    """
    from surgeon.pipeline.rewriting.rewrite import rewrite as run

    if not names and not inline and not plugins:
        raise UsageError("Nothing is asked for; name rules with --rules, or local functions with --inline.")
    rules: list[str | Rule] = [*_plugin_rules(plugins, settings["target"]), *names]
    settings |= {"inline": [name for item in inline for name in item.split(",") if name], "expect": dict(expect)}

    report = run_and_report(
        lambda note: run(source, rules, output=output, options=options, progress=note, **settings),
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
    from surgeon.pipeline.rewriting.verification import rollback_message

    if report.rolled_back:
        click.echo(sanitise(f"FAILED: {rollback_message(report)}"), err=True)
    for reason in dict.fromkeys(report.doubts):
        click.echo(sanitise(f"UNPROVED: {reason}"), err=True)
    for line in warning_lines(report):
        click.echo(sanitise(line), err=True)
