"""The command `surgeon compare`: compares the outputs of two models."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

from surgeon.cli.options import CHECK_FAILED, NameAndNumber, explain_invalid_names, run_time, runtime_option
from surgeon.cli.report_file import emit_result, report_option, require_report_path
from surgeon.display.content.comparison import by_output
from surgeon.display.content.edit import check_words
from surgeon.display.content.rewrite import error_and_tolerance, inputs_text, layer_comparison_text
from surgeon.display.terminal.console import OUTCOME_STYLES, labelled_line_printer, make_console
from surgeon.display.terminal.sanitise import sanitise
from surgeon.text import and_more, seconds_text

if TYPE_CHECKING:
    from rich.console import Console

    from surgeon.proof.check_result import CheckResult
    from surgeon.runtime.numerics.array_comparison import OutputError

SHOWN_OUTPUTS = 20


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
    emit_result(
        result, lambda: print_comparison(result, sys.stdout), report_path, as_json=as_json, data=found, title=title
    )
    if result.outcome.value != "proved":
        click.get_current_context().exit(CHECK_FAILED)


def print_comparison(result: "CheckResult", stream: TextIO) -> None:
    """Print the error of each output and of the worst layers if compared, the outcome and its reason."""

    console = make_console(stream)
    line = labelled_line_printer(console)

    if result.outputs:
        worst = by_output(result.outputs)
        _print_errors(console, "output", worst[:SHOWN_OUTPUTS])
        if len(worst) > SHOWN_OUTPUTS:
            more = and_more(len(worst) - SHOWN_OUTPUTS).lstrip()
            console.print(f"{more}, none worse (--json has all)", soft_wrap=True)
        console.print()
    if result.layers is not None:
        if result.layers.errors:
            _print_errors(console, "worst layers", result.layers.errors)
            console.print()
        line("layers", layer_comparison_text(result.layers))
    line("outcome", OUTCOME_STYLES[result.outcome.value], f" {check_words(result)}".rstrip())
    for place, words in enumerate(inputs_text(result) if result.proved else ()):
        line("" if place else "tried", words)
    line("time", seconds_text(result.seconds))


def _print_errors(console: "Console", title: str, errors: Sequence["OutputError"]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(title, overflow="fold")
    table.add_column("dtype")
    for name in ("max abs", "max rel", "allowed"):
        table.add_column(name, justify="right")
    table.add_column("")
    for error in errors:
        gap, allowed = error_and_tolerance(error.max_abs, error.allowed, error.scale)
        numbers = gap, f"{error.max_rel:.3g}", allowed
        table.add_row(
            sanitise(error.name), error.dtype, *numbers, "" if error.ok else "differs", style="" if error.ok else "red"
        )
    console.print(table)
