"""The command `surgeon bench`: compares the latency of models."""

from collections.abc import Sequence
from typing import Any

from surgeon.cli.command_group import CHECK_FAILED
from surgeon.cli.options import Spelling, derived_command
from surgeon.cli.param_types import SHAPE
from surgeon.cli.report_file import emit, require_report_path


@derived_command(
    "bench",
    {"original": "IN", "others": "OUT..."},
    inputs=Spelling(metavar="FILE", multiple=False),
    at=Spelling(metavar="NAME=N,...", type=SHAPE, multiple=True),
)
def bench(
    original: str,
    others: Sequence[str],
    inputs: str | None,
    report_path: str | None,
    expect_not_slower: bool = False,
    **settings: Any,
) -> None:
    """Run IN and OUT in turn under ONNX Runtime, with its own optimisations, and compare their latency.

    surgeon loads all models again and again, runs them in turn in each load, and prints the median ratio of OUT's time
    to IN's time over the loads, with its 95 % interval.  If the machine is slow for a while, it judges those loads
    apart.  Each --at is a shape of the inputs.  To compare their outputs, use surgeon compare.
    Example: surgeon bench in.onnx out.onnx --at batch=1,sequence=64
    Exit codes: 1 a model is slower than IN, with --expect-not-slower

    Args:
        expect_not_slower: exit with code 1 if a model is slower than IN.
    """
    from surgeon.runtime.timing.bench import bench as run
    from surgeon.runtime.timing.samples import SLOWER

    require_report_path(report_path, original, *others)
    found = run(original, *others, inputs=inputs or (), **settings)
    is_slower = any(ratio.verdict == SLOWER for ratio in found.ratios)
    emit([found], CHECK_FAILED if expect_not_slower and is_slower else 0, report_path=report_path)
