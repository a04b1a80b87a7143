"""The command `surgeon compare`: compares the outputs of two models."""

from typing import Any

from surgeon.cli.command_group import CHECK_FAILED
from surgeon.cli.options import derived_command
from surgeon.cli.progress import progress
from surgeon.cli.report_file import emit, require_report_path


@derived_command("compare", {"original": "ORIGINAL", "other": "OTHER"})
def compare(original: str, other: str, report_path: str | None, verbose: bool, **settings: Any) -> None:
    """Run ORIGINAL and OTHER under ONNX Runtime on the same inputs, and compare every output.

    Ops without a kernel run with the Python implementations in --custom-ops.  Without --inputs, surgeon generates
    inputs that fit the graph.
    Example: surgeon compare in.onnx out.onnx --compare-layers
    Exit codes: 0 equal within tolerance, 1 different, or no result
    """
    from surgeon.proof.compare import compare as run
    from surgeon.runtime.processes.worker_pool import prefork_workers

    require_report_path(report_path, original, other)
    prefork_workers(1)
    with progress(quiet=False):
        result = run(original, other, **settings)
    code = 0 if result.proved else CHECK_FAILED
    emit([result], code, report_path=report_path, verbose=verbose)
