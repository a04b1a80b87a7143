"""The command `surgeon rewrite`: runs rules on a model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from surgeon.cli.options import Spelling, derived_command
from surgeon.cli.param_types import SHAPE
from surgeon.cli.report_file import run_and_report
from surgeon.errors import UsageError

if TYPE_CHECKING:
    from surgeon.proof.check_options import CheckOptions
    from surgeon.rules.rule import Rule


@derived_command(
    "rewrite",
    {"source": "IN", "output": "OUT"},
    without="progress",
    shared="report_path quiet diff verbose",
    jobs=Spelling(section="Checks"),
    at=Spelling(metavar="NAME=N,...", type=SHAPE, multiple=True),
)
def rewrite(
    source: str,
    output: str,
    rules: Sequence[str],
    inline: Sequence[str],
    options: "CheckOptions",
    plugins: Sequence[str] = (),
    **settings: Any,
) -> None:
    """Replace the subgraphs of IN that match the rules, prove each replacement, and write OUT.

    IN and OUT may be the same file.  Without --rules, surgeon runs the group of rules for the target.
    Example: surgeon rewrite in.onnx out.onnx
    Exit codes: 1 a site was rolled back or a check failed, 3 --expect was not met

    Args:
        expect: write OUT only if rule NAME is applied N times.  Otherwise exit with code 3.
        keep_going: exit with code 0 even if sites were rolled back.
        plugins: replace a placeholder with a TensorRT plugin node: mylib::op=MyPlugin:1.  Map attributes to plugin
            fields with ,attribute=field.
    """
    from surgeon.pipeline.rewriting.rewrite import rewrite as run

    requested: list[str | Rule] = [*_plugin_rules(plugins, settings["target"]), *rules]
    settings["inline"] = [name for item in inline for name in item.split(",") if name]

    def work(note: Any, **given: Any) -> Any:
        return run(source, requested or None, output=output, options=options, progress=note, **given)

    run_and_report(work, (source, output), **settings)


def _plugin_rules(specs: Sequence[str], target: str) -> "list[Rule]":
    """The rules that replace placeholders with plugin nodes."""
    if not specs:
        return []
    if target != "tensorrt":
        raise UsageError(f"--plugin needs --target tensorrt, but the target is {target}.")
    from surgeon.rules.plugin_rule import plugin_rules

    return plugin_rules(specs)
