"""The command `surgeon check`: what prevents a model from running on a target."""

import sys
from collections.abc import Sequence
from typing import Any

from surgeon.cli.command_group import BAD_INPUT, CHECK_FAILED
from surgeon.cli.options import Spelling, derived_command
from surgeon.cli.param_types import TargetName
from surgeon.cli.report_file import emit, require_report_path
from surgeon.target_registry import DECOMPOSED, names


def _checkable_targets() -> Sequence[str]:
    """The targets that run models; the others of surgeon only choose what rules write."""
    return [name for name in names() if name not in ("contrib", DECOMPOSED)]


@derived_command("check", {"source": "MODEL"}, target=Spelling(type=TargetName(_checkable_targets)))
def check(source: str, target: str, report_path: str | None, verbose: bool, **settings: Any) -> None:
    """List the nodes of MODEL that a target cannot run, the lines of code they came from, and remedies.

    Faults of the graph itself are listed too.  Nothing is written.  Exit codes: 0 it runs, 1 something cannot run,
    2 the runtime did not answer: it ended, or took too much time or memory.
    Example: surgeon check model.onnx --target tensorrt

    Args:
        load: do not have the runtime itself read the model.
    """
    from surgeon.diagnostics.target_check import check as run
    from surgeon.display.terminal.terminal_renderer import show

    require_report_path(report_path, source)
    found = run(source, target, **settings)
    stopped = BAD_INPUT if found.is_undecided else CHECK_FAILED
    code = stopped if any(item.stops for item in found) else 0
    emit([found], code, report_path=report_path, show=lambda: show(found, sys.stdout, verbose=verbose))
