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
    """Run IN and OUT in turn under ONNX Runtime, with its own optimisations, and compare their latency.

    Each round runs every model once, in a random order, so that other load on the machine affects all models equally.
    surgeon prints the median ratio of OUT's time to IN's time, with its 95 % interval.  To compare their outputs, use
    surgeon compare.
    Example: surgeon bench in.onnx out.onnx --dim batch=1
    Exit codes: 1 a model is slower than IN, with --expect-not-slower

    Args:
        expect_not_slower: exit with code 1 if a model is slower than IN.
    """
    from surgeon.runtime.timing.bench import bench as run
    from surgeon.runtime.timing.latency import SLOWER

    require_report_path(report_path, original, *others)
    found = run(original, *others, inputs=inputs or (), **settings)
    is_slower = any(ratio.verdict == SLOWER for ratio in found.ratios)
    emit([found], CHECK_FAILED if expect_not_slower and is_slower else 0, report_path=report_path)
