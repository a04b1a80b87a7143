"""The command line and its exit codes.

0  success
1  a check failed, or was unproved with --require-proof; proved sites are written if the faulty ones are known
2  bad input or usage
3  --expect was not met; nothing was written
"""

import gc
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from surgeon.cli.options import (
    CHECK_FAILED,
    TRACEBACK,
    CommandGroup,
    NameAndNumber,
    Opset,
    check_and_output_options,
    explain_invalid_names,
)
from surgeon.cli.param_types import TargetName
from surgeon.cli.progress import progress
from surgeon.cli.report_file import report_option, run_and_report
from surgeon.display.terminal.console import print_json
from surgeon.display.terminal.sanitise import sanitise
from surgeon.errors import CheckFailed, UsageError
from surgeon.printed_commands import command

if TYPE_CHECKING:
    from surgeon.pipeline.reports.rewrite_report import Report
    from surgeon.proof.check_options import CheckOptions
    from surgeon.rules.rule import Rule


def _version(ctx: click.Context, _: click.Parameter, is_set: bool) -> None:
    if is_set:
        from surgeon.versions import own_version

        click.echo(f"surgeon {own_version()}")
        ctx.exit()


def _traceback(ctx: click.Context, _: click.Parameter, is_set: bool) -> None:
    ctx.meta[TRACEBACK] = is_set


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version and leave."
)
@click.option(
    "--traceback", is_flag=True, expose_value=False, callback=_traceback, help="Show where a defect of surgeon is."
)
def main() -> None:
    """Graph surgery for exported ONNX models: every change you asked for, nothing else, and each one proved.

    Exit codes: 0 fine, 1 a check failed, 2 bad input or usage, 3 --expect not met, 4 a defect of
    surgeon.
    """


@main.command(short_help="Replace what rules recognise, prove it, and write.")
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

    def show(report: "Report") -> None:
        from surgeon.display.terminal.rewrite import print_report

        print_report(report, sys.stdout, diff=diff, verbose=verbose)

    report = run_and_report(
        lambda note: run(source, rules, output=output, options=options, progress=note, **settings),
        show,
        (source, output),
        report_path=report_path,
        quiet=quiet,
    )
    if quiet:
        _print_warnings(report)


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


_LAZY_COMMANDS = (
    "append",
    "bench",
    "capture",
    "check",
    "compare",
    "convert",
    "diff",
    "draw",
    "edit",
    "explain",
    "extract",
    "insert",
    "learn",
    "merge",
    "new",
    "prepend",
    "record",
    "run",
    "split",
    "view",
)
main.lazy_commands |= {name: f"surgeon.cli.commands.{name}" for name in _LAZY_COMMANDS}


@main.command(short_help="List the rules, print the manual of one, or prove it.")
@click.argument("name", required=False)
@click.option("--prove", is_flag=True, help="Prove every pattern against every form, from the rule alone.")
@click.option(
    "--target", "targets", type=TargetName(), multiple=True, help="Prove the forms of this target only."
)
@click.option("--custom-ops", multiple=True, metavar="LIB", help="As for surgeon rewrite, for --prove.")
@click.pass_context
def rules(ctx: click.Context, name: str | None, prove: bool, targets: Sequence[str], custom_ops: Sequence[str]) -> None:
    """List the rules, or print the manual of those that NAME leads to, or prove them.

    NAME is what --rules takes: gelu, ./my_rules.py, package.module:name.  With --prove, the exit code is 0 where all
    is proved or left alone by the rule, and 1 where something fails or cannot be told.
    """
    from surgeon.display.terminal.rule_manual import print_list, print_manual, print_postprocessing
    from surgeon.rules.catalogue import all_rules, groups, resolve, unique_rules
    from surgeon.rules.edit_aliases import EDIT_ALIASES

    if name is None:
        if prove:
            raise UsageError(f"Say which rules to prove, as in: {command('rules', 'NAMES', '--prove')}")
        print_list(all_rules(), groups(), sys.stdout)
        return
    if name in EDIT_ALIASES and not prove:
        print_postprocessing(name, sys.stdout)
        return
    found = unique_rules(resolve(name))
    if prove and not _prove_rules(found, targets, custom_ops):
        ctx.exit(CHECK_FAILED)
    for number, rule in enumerate(() if prove else found):
        if number:
            click.echo()
        print_manual(rule, sys.stdout)


def _prove_rules(found: "Sequence[Rule]", targets: Sequence[str], custom_ops: Sequence[str]) -> bool:
    """Prove rules and print the results; returns whether all are proved."""
    from surgeon.authoring.rule_proof.prover import prove_rule
    from surgeon.display.terminal.rule_proof import print_rule_proof
    from surgeon.proof.check_result import Outcome
    from surgeon.runtime.sessions.ort_session import require_libraries

    libraries = require_libraries(custom_ops)
    gc.freeze()  # imported modules are not garbage
    gc.enable()  # each instance leaves reference cycles
    all_proved = True
    for number, rule in enumerate(found):
        with progress(False, "proof") as note:
            proof = prove_rule(rule, targets=list(targets) or None, custom_ops=libraries, progress=note)
        if number:
            click.echo()
        print_rule_proof(proof, sys.stdout)
        all_proved = all_proved and proof.outcome is Outcome.PROVED
    return all_proved


@main.command(short_help="Show what is in a model.")
@click.argument("source", metavar="MODEL")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
@explain_invalid_names
def inspect(source: str, as_json: bool) -> None:
    """Show opsets, ops, custom ops, inputs, outputs and the size of the weights of MODEL.  Payloads are not read."""
    from surgeon.display.terminal.inspection import print_inspection
    from surgeon.targets.inspection.model_summary import inspect as look

    found = look(source)
    if as_json:
        print_json(found.to_dict())
    else:
        print_inspection(found, sys.stdout)


@main.command(short_help="Raise the opset without changing what any node means.")
@click.argument("source", metavar="IN")
@click.argument("output", metavar="OUT")
@click.option("--opset", type=int, required=True, metavar="N", help="The version of ai.onnx to raise the model to.")
@check_and_output_options("model", "none")
@explain_invalid_names
def upgrade(
    source: str,
    output: str,
    opset: int,
    quiet: bool,
    options: "CheckOptions",
    **settings: Any,
) -> None:
    """Raise the opset of IN where no node would change its meaning, check the result, and write OUT."""
    from surgeon.display.terminal.rewrite import print_upgrade
    from surgeon.pipeline.reports.upgrade_report import UpgradeReport
    from surgeon.pipeline.upgrading.upgrade import upgrade as run

    try:
        with progress(quiet):
            done = run(source, opset, output, options=options, **settings)
    except CheckFailed as error:
        if not quiet and isinstance(error.report, UpgradeReport):
            print_upgrade(error.report, sys.stdout, written=False)
        raise
    if not quiet:
        print_upgrade(done, sys.stdout, written=True)
    elif done.check is not None and done.check.outcome.value == "unproved":
        click.echo(sanitise(f"UNPROVED: {done.check.reason}"), err=True)
