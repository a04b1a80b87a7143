"""The command `surgeon check`: lists the nodes that a target cannot run."""

from collections.abc import Sequence
from typing import Any

from surgeon.cli.command_group import BAD_INPUT, CHECK_FAILED
from surgeon.cli.options import Spelling, derived_command
from surgeon.cli.param_types import TargetName
from surgeon.cli.progress import progress
from surgeon.cli.report_file import emit, require_report_path
from surgeon.target_registry import DECOMPOSED, names


def _checkable_targets() -> Sequence[str]:
    """The targets that run models; the others of surgeon only choose what rules write."""
    return [name for name in names() if name not in ("contrib", DECOMPOSED)]


@derived_command("check", {"source": "MODEL"}, target=Spelling(type=TargetName(_checkable_targets)))
def check(source: str, target: str, report_path: str | None, verbose: bool, **settings: Any) -> None:
    """List the nodes of MODEL that a target cannot run, with their source lines and suggested remedies.

    Errors in the graph itself are listed as well.  Nothing is written.
    Example: surgeon check model.onnx --target tensorrt
    Exit codes: 0 no problems, 1 the target cannot run the model, 2 bad input, or the runtime crashed, ran out of time
    or memory, or built no engine

    Args:
        dims: size of a dynamic dimension for --build, or MIN:OPT:MAX.
        load: use only surgeon's tables, and do not load the model in the runtime.
    """
    from surgeon.diagnostics.target_check import check as run

    require_report_path(report_path, source)
    with progress(quiet=False):
        found = run(source, target, **settings)
    code = BAD_INPUT if found.is_undecided else CHECK_FAILED * any(item.stops for item in found)
    emit([found], code, report_path=report_path, verbose=verbose)
