"""The command `surgeon rewrite`: runs rules on a model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from surgeon.cli.options import derived_command
from surgeon.cli.report_file import run_and_report
from surgeon.errors import UsageError

if TYPE_CHECKING:
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

    run_and_report(
        lambda note: run(source, requested, output=output, options=options, progress=note, **settings),
        (source, output),
        report_path=report_path,
        quiet=quiet,
        diff=diff,
        verbose=verbose,
    )


def _plugin_rules(specs: Sequence[str], target: str) -> "list[Rule]":
    """The rules that write placeholders as plugins."""
    if not specs:
        return []
    if target != "tensorrt":
        raise UsageError(f"Plugins are TensorRT's, and the target is {target}; give --target tensorrt.")
    from surgeon.rules.plugin_rule import plugin_rules

    return plugin_rules(specs)
