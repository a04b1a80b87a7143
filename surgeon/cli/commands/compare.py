"""The command `surgeon compare`: compares the outputs of two models."""

from collections.abc import Sequence
from typing import Any

import click

from surgeon.cli.options import CHECK_FAILED, NameAndNumber, explain_invalid_names, run_time, runtime_option
from surgeon.cli.report_file import emit_result, report_option, require_report_path


@click.command(short_help="Run two models side by side and compare what they answer.")
@click.argument("source", metavar="ORIGINAL")
@click.argument("other", metavar="OTHER")
@click.option(
    "--inputs",
    multiple=True,
    metavar="PATH",
    help="Your inputs: an .npz file with an array for each input, a folder of them, or ONNX test data; repeatable.",
)
@click.option(
    "--dim", "dims", type=NameAndNumber(), multiple=True, help="Size of a named dimension of inputs; repeatable."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the inputs that are made.")
@click.option(
    "--custom-ops",
    multiple=True,
    metavar="FILE",
    help="Library of custom ops for ONNX Runtime, or a Python file that implements ops in numpy; repeatable.",
)
@click.option("--rtol", type=float, help="Relative tolerance in place of the dtype's own.")
@click.option("--atol", type=float, help="Absolute tolerance in place of the dtype's own.")
@click.option("--compare-layers", "layers", is_flag=True, help="Compare inner tensors too; name the first to differ.")
@runtime_option("OTHER")
@run_time
@report_option("the result")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@explain_invalid_names
def compare(
    source: str,
    other: str,
    dims: Sequence[tuple[str, int]],
    report_path: str | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Run ORIGINAL and OTHER under ONNX Runtime on the same inputs and compare every output.

    What it has no kernel for runs by your Python implementation, if --custom-ops gives one.
    Inputs are made to fit the graph unless you give yours.  Exit codes: 0 equal within tolerance, 1 different or not
    to be told, 2 bad input.
    """
    from surgeon.proof.compare import compare as run
    from surgeon.runtime.processes.worker_pool import prefork_workers

    require_report_path(report_path, source, other)
    prefork_workers(1)
    result = run(source, other, dims=dict(dims), **settings)
    found = {"original": source, "other": other, **result.to_dict()}
    title = f"{source} beside {other}"
    emit_result(result, report_path, as_json=as_json, data=found, title=title)
    if result.outcome.value != "proved":
        click.get_current_context().exit(CHECK_FAILED)
