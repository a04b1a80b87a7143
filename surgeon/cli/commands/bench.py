"""The command `surgeon bench`: compares the latency of models."""

from collections.abc import Sequence
from typing import Any

from surgeon.cli.command_group import CHECK_FAILED
from surgeon.cli.options import Spelling, derived_command
from surgeon.cli.report_file import emit, require_report_path


@derived_command("bench", {"original": "IN", "others": "OUT..."}, inputs=Spelling(metavar="FILE", multiple=False))
def bench(
    original: str,
    others: Sequence[str],
    inputs: str | None,
    report_path: str | None,
    expect_not_slower: bool = False,
    **settings: Any,
) -> None:
    """Run IN and OUT in turn under ONNX Runtime, its own optimisations on for both, and compare their latency.

    Every model runs once in each round, in a new order each time, so that what else the machine does falls on all
    alike.  The ratio is the median over the rounds of OUT's time by IN's, with its 95 % interval: that of the sign
    test, made wide enough for each single load.  Whether they answer the same is for surgeon compare.
    Example: surgeon bench in.onnx out.onnx --dim batch=1

    Args:
        expect_not_slower: end with exit code 1 where a model is slower than IN.
    """
    from surgeon.runtime.timing.bench import bench as run
    from surgeon.runtime.timing.latency import SLOWER

    require_report_path(report_path, original, *others)
    found = run(original, *others, inputs=inputs or (), **settings)
    is_slower = any(ratio.verdict == SLOWER for ratio in found.ratios)
    emit([found], CHECK_FAILED if expect_not_slower and is_slower else 0, report_path=report_path)
