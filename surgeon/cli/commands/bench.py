"""The command `surgeon bench`: compares the latency of models."""

from collections.abc import Sequence
from typing import Any

import click

from surgeon.cli.options import CHECK_FAILED, NameAndNumber, explain_invalid_names, run_time, runtime_option
from surgeon.cli.report_file import emit_result, report_option, require_report_path
from surgeon.runtime.timing.bench import LOADS, PRECISION, ROUNDS, SECONDS
from surgeon.runtime.timing.latency import SLOWER


@click.command(short_help="Measure how long models take, held against each other.")
@click.argument("source", metavar="IN")
@click.argument("others", metavar="OUT...", nargs=-1, required=True)
@click.option("--inputs", metavar="FILE", help="Your inputs: an .npz file with an array for each input.")
@click.option(
    "--dim", "dims", type=NameAndNumber(), multiple=True, help="Size of a named dimension of inputs; repeatable."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the inputs made, and of the order.")
@click.option("--threads", type=int, default=0, help="Threads for one operator.  [default: one on each physical core]")
@click.option("--ep", metavar="NAME", default="cpu", show_default=True, help="The execution provider that runs them.")
@runtime_option("them")
@click.option("--rounds", type=int, default=ROUNDS, show_default=True, help="Rounds at least.")
@click.option("--seconds", type=float, default=SECONDS, show_default=True, help="Time for the rounds beyond these.")
@click.option(
    "--precision",
    type=float,
    default=PRECISION,
    show_default=True,
    help="Stop earlier once every ratio is known so well: half the width of its interval, by the ratio.",
)
@click.option("--loads", type=int, default=LOADS, show_default=True, help="How often the models are loaded anew.")
@click.option(
    "--cpu-time",
    is_flag=True,
    help="Measure the processor time of one thread, which hardly depends on what else the machine does.",
)
@click.option("--expect-not-slower", is_flag=True, help="End with exit code 1 where a model is slower than IN.")
@click.option("--custom-ops", multiple=True, metavar="LIB", help="Library of custom ops for ONNX Runtime; repeatable.")
@run_time
@report_option("the result")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@explain_invalid_names
def bench(
    source: str,
    others: Sequence[str],
    inputs: str | None,
    dims: Sequence[tuple[str, int]],
    expect_not_slower: bool,
    report_path: str | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Run IN and OUT in turn under ONNX Runtime, its own optimisations on for both, and compare their latency.

    Every model runs once in each round, in a new order each time, so that what else the machine does falls on all
    alike.  The ratio is the median over the rounds of OUT's time by IN's, with its 95 % interval: that of the sign
    test, made wide enough for each single load.  Whether they answer the same is for surgeon compare.
    Example: surgeon bench in.onnx out.onnx --dim batch=1
    """
    from surgeon.runtime.timing.bench import bench as run

    require_report_path(report_path, source, *others)
    found = run(source, *others, inputs=() if inputs is None else inputs, dims=dict(dims), **settings)
    emit_result(found, report_path, as_json)
    if expect_not_slower and any(ratio.verdict == SLOWER for ratio in found.ratios):
        click.get_current_context().exit(CHECK_FAILED)
