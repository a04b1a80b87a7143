"""The command `surgeon explain`: why rules nearly fire, but do not."""

from collections.abc import Sequence

import click

from surgeon.cli.options import explain_invalid_names
from surgeon.cli.param_types import TargetName
from surgeon.cli.report_file import emit_result, report_option, require_report_path
from surgeon.diagnostics.explanation import MAX_PER_RULE, explanations
from surgeon.display.content.explanation import document


@click.command(short_help="Say why rules do not fire.")
@click.argument("source", metavar="MODEL")
@click.option("--rules", "-r", "names", multiple=True, required=True, metavar="NAMES", help="As for surgeon rewrite.")
@click.option(
    "--node", metavar="NAME", help="Say what stands against each pattern at the node that has or makes this name."
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=MAX_PER_RULE,
    show_default=True,
    help="Different misses to tell of each rule.",
)
@click.option(
    "--target", type=TargetName(), default="ort", show_default=True, help="As for surgeon rewrite."
)
@click.option("--ep", metavar="NAME", help="As for surgeon rewrite.")
@click.option("--verbose", "-v", is_flag=True, help="Tell of every rule of a group, not of the nearest alone.")
@report_option("the misses")
@click.option("--json", "as_json", is_flag=True, help="Print the misses as JSON.")
@explain_invalid_names
def explain(
    source: str,
    names: Sequence[str],
    node: str | None,
    top: int,
    target: str,
    ep: str | None,
    verbose: bool,
    report_path: str | None,
    as_json: bool,
) -> None:
    """Say where rules nearly fire in MODEL, nearest misses first, what stands against it, and what would mend it.

    Several rules are run together first, in memory: told is what they leave.  Nothing is written.

    Example: surgeon explain in.onnx --rules gelu
    """
    require_report_path(report_path, source)
    found = explanations(source, names, target=target, ep=ep, node=node, top=top)
    data = {"rules": [item.to_dict() for item in found]}
    emit_result(found, report_path, as_json=as_json, data=data, document=document(found, verbose=verbose))
