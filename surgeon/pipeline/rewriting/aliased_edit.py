"""Applies the edit that a rule name stands for (detector post-processing) before the rules run."""

from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from onnx import ModelProto

from surgeon.edits.detection.postprocessing_edits import detector_tail, has_postprocessing
from surgeon.errors import CheckFailed, UsageError
from surgeon.file.model_like import model_name
from surgeon.file.save import OutputModel
from surgeon.file.temporary_model import temporary_folder, temporary_path
from surgeon.pipeline.checks import Checks, Saving
from surgeon.pipeline.driver import run
from surgeon.pipeline.editing.edit_group import CHECK_MODES, edit_groups
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
        groups = edit_groups(detector_tail(source, tail.kind))
        checks = Checks.named(check, CHECK_MODES, require_proof, options)
        if isinstance(source, ModelProto):
            made, _ = run(source, groups, checks)
            return made, groups[0].report
        home, mode = stack.enter_context(temporary_folder(source, output))
        path = temporary_path(home, source)
        stack.callback(path.unlink, missing_ok=True)
        run(source, groups, checks, Saving(path, external_data=mode))
        return path, groups[0].report
    except UsageError as error:  # the edit examines the head once more
        reason = str(error).rstrip(".")
        how = command("append", "IN", "OUT", tail.kind)
        raise UsageError(f"{reason}; these are options of: {how}") from None
    except CheckFailed as error:
        report = Report(model_name(source), str(output or ""), target, {}, tails=(name,))
        report.edited = error.report if isinstance(error.report, EditReport) else None
        error.report = report
        raise
