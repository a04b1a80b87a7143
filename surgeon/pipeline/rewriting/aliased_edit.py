"""Applies the edit that a rule name stands for (detector post-processing) before the rules run."""

from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from surgeon.edits.detection.postprocessing_edits import detector_tail, has_postprocessing
from surgeon.errors import CheckFailed, UsageError
from surgeon.file.model_like import model_name
from surgeon.file.save import OutputModel
from surgeon.pipeline.editing.driver import edited_temporarily
from surgeon.pipeline.reports.edit_report import EditReport
from surgeon.pipeline.reports.rewrite_report import Report
from surgeon.printed_commands import command
from surgeon.proof.check_options import CheckOptions
from surgeon.rules.edit_aliases import EDIT_ALIASES


def apply_aliased_edit(
    name: str,
    source: OutputModel,
    output: Path | None,
    stack: ExitStack,
    *,
    target: str,
    check: Literal["auto", "none"],
    require_proof: bool,
    options: CheckOptions,
) -> tuple[OutputModel, EditReport | None]:
    """The model with post-processing, and the report; None if it already has some.

    Its file is removed when the stack is closed.  output: path of the rewritten model.  Raises UsageError if the
    post-processing is for another target or no detector head is found; else as `surgeon.edit`.
    """
    tail = EDIT_ALIASES[name]
    if tail.target and tail.target != target:
        raise UsageError(f"{name} is a plugin of TensorRT's, and the target is {target}: give --target {tail.target}.")
    if has_postprocessing(source, tail.kind):
        return source, None
    try:
        edits = detector_tail(source, tail.kind)
        run = edited_temporarily(source, edits, output, check=check, require_proof=require_proof, options=options)
        return stack.enter_context(run)
    except UsageError as error:  # the edit examines the head once more
        reason = str(error).rstrip(".")
        how = command("append", "IN", "OUT", tail.kind)
        raise UsageError(f"{reason}; these are options of: {how}") from None
    except CheckFailed as error:
        report = Report(model_name(source), str(output or ""), target, {}, tails=(name,))
        report.edited = error.report if isinstance(error.report, EditReport) else None
        error.report = report
        raise
