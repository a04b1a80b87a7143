"""The command `surgeon check`: what prevents a model from running on a target."""

from collections.abc import Sequence
from typing import Any

import click

from surgeon.cli.options import BAD_INPUT, CHECK_FAILED, NameAndSizeRange, Sizes, explain_invalid_names, run_time
from surgeon.cli.param_types import TargetName
from surgeon.cli.report_file import emit_result, report_option, require_report_path
from surgeon.diagnostics.target_check import check as run
from surgeon.diagnostics.target_check import checkable_targets
from surgeon.display.content.check import is_undecided


@click.command(short_help="Say what keeps a model from running on a target.")
@click.argument("source", metavar="MODEL")
@click.option(
    "--target", type=TargetName(checkable_targets), default="ort", show_default=True, help="Where the model is to run."
)
@click.option(
    "--ep", metavar="NAME", help="ONNX Runtime's execution provider: cpu, cuda, dml, tensorrt.  [default: cpu]"
)
@click.option(
    "--custom-ops",
    multiple=True,
    metavar="LIB",
    help="Library of custom ops, or a Python file that implements ops, that the target will have; repeatable.",
)
@click.option("--no-load", is_flag=True, help="Do not have the runtime itself read the model.")
@click.option(
    "--trt", metavar="NAME", help="Which TensorRT is asked: tensorrt-rtx or tensorrt.  [default: tensorrt-rtx]"
)
@click.option("--build", is_flag=True, help="For TensorRT: build an engine too, which needs no GPU.")
@click.option("--sm", default="86", show_default=True, help="Compute capability of the GPU that --build is for.")
@click.option(
    "--dim",
    "dims",
    type=NameAndSizeRange(),
    multiple=True,
    help="Size of a named dimension in --build, or the least, best and largest; repeatable.",
)
@run_time
@report_option("the findings")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@explain_invalid_names
def check(
    source: str,
    target: str,
    no_load: bool,
    report_path: str | None,
    as_json: bool,
    dims: Sequence[tuple[str, int | Sizes]],
    **settings: Any,
) -> None:
    """Say what keeps MODEL from running on a target: which nodes it cannot run, where they came from, what helps.

    Faults of the graph itself are told too, all in one go.  Nothing is written.  The exit code is 1 where something
    cannot run, and 2 where the runtime came to no word: it ended, or took too long or too much.  Example: surgeon check
    model.onnx --target tensorrt
    """
    require_report_path(report_path, source)
    found = run(source, target, load=not no_load, dims=dict(dims), **settings)
    content = {"model": source, **found.to_dict()}
    emit_result(found, report_path, as_json=as_json, data=content, title=source)
    if any(item.stops for item in found):
        click.get_current_context().exit(BAD_INPUT if is_undecided(found, found.runtime) else CHECK_FAILED)
