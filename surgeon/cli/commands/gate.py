"""The command `surgeon gate`: reports regressions of models since a baseline."""

import os
from collections.abc import Sequence
from typing import Any

from surgeon.cli.command_group import BAD_INPUT, CHECK_FAILED
from surgeon.cli.options import OPTIONAL, Spelling, derived_command
from surgeon.cli.report_file import emit, require_report_path


@derived_command(
    "gate",
    {"sources": "MODELS..."},
    without="progress begins layers proof_time coverage",
    baseline=Spelling(default=OPTIONAL),
)
def gate(
    sources: Sequence[str],
    report_path: str | None,
    quiet: bool,
    verbose: bool,
    update: bool,
    baseline: str | None,
    sarif: str | None = None,
    junit: str | None = None,
    markdown: str | None = None,
    **settings: Any,
) -> None:
    """Report what got worse in MODELS since a baseline: lost fusions, unsupported ops, fixed dims, lost proofs.

    Each model is rewritten in a temporary folder; MODELS stay as they are.  --update writes the baseline, which belongs
    in the repository.
    Example: surgeon gate models/*.onnx --update
    Example: surgeon gate models/*.onnx --target tensorrt
    Exit codes: 1 a regression, 2 bad input, or settings other than the baseline's

    Args:
        jobs: number of models to process in parallel on this machine.
        check: "auto": prove each rewritten site.  "none": no check.
        sarif: also write the regressions as SARIF, for code scanning.
        junit: also write a test case per model as JUnit XML, for a CI server.
        markdown: also write a table as Markdown, for a comment or the summary of a job.
    """
    from surgeon.automation.gate.baseline_file import BASELINE
    from surgeon.automation.gate.run_gate import gate as run
    from surgeon.cli.progress import FleetProgress
    from surgeon.display.gate_files.gate_file import require_gate_files, write_gate_files

    given = {"sarif": sarif, "junit": junit, "markdown": markdown}
    files = {name: path for name, path in given.items() if path is not None}
    require_report_path(report_path)
    require_gate_files(files, (baseline or BASELINE, report_path))
    with FleetProgress(quiet) as progress:
        settings |= {"progress": progress.show_row, "begins": progress.begins}
        found = run(sources, baseline=baseline or BASELINE, update=update, **settings)
    write_gate_files(found, files)
    is_unguarded = not found.has_baseline and not update and os.environ.get("CI", "").lower() in ("true", "1")
    code = BAD_INPUT if is_unguarded else CHECK_FAILED * (not found.ok)
    shown = (lambda: None) if quiet and not code else None
    emit([found], code, report_path=report_path, show=shown, verbose=verbose)
