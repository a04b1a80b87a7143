"""Checks of the output model as a whole: whether it is valid, and whether it computes the same as the original."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from surgeon.errors import CheckFailed
from surgeon.file.model import Model
from surgeon.proof.check_options import CheckOptions
from surgeon.proof.check_result import CheckResult, Outcome

if TYPE_CHECKING:
    from surgeon.proof.model.model_check import ModelCheck


def structural_fault(model: Model, written: onnx.ModelProto | Path | Model) -> str | None:
    """A violation of ONNX's rules in the output model that the original does not have, or None."""
    from surgeon.ir.verify_rewrite import new_violations  # not at the top: runs without a check do not need it

    with nullcontext(written) if isinstance(written, Model) else Model.open(written) as after:
        complaints = new_violations(model.skeleton, after.skeleton)
    return complaints[0].rstrip(".") if complaints else None


def model_check(model: Model, original: onnx.ModelProto | Path, options: CheckOptions) -> "ModelCheck":
    """The check of whole models under ONNX Runtime: one original, and any number to compare with it."""
    from surgeon.proof.model.model_check import ModelCheck

    model.check_data(sums=True)  # ONNX Runtime reads all data and checks no sums
    return ModelCheck(original, model.skeleton, options)


def require_equal(made: str, result: CheckResult, require_proof: bool, report: object) -> None:
    """Raise CheckFailed, with the report, for a model that differs, or that lacks a required proof.

    made: how the model came to be, "rewritten" or "upgraded".
    """
    differs, doubted = f"The {made} model differs from the original", f"The {made} model is not proved"
    require_equal_with_words(result, require_proof, report, differs=differs, doubted=doubted)


def require_equal_with_words(
    result: CheckResult, require_proof: bool, report: object, *, differs: str, doubted: str
) -> None:
    """The same with other words for both outcomes, as clauses."""
    reason = result.reason.rstrip(".")
    if result.outcome is Outcome.FAILED:
        raise CheckFailed(f"{differs}: {reason}; nothing was written.", report)
    if result.outcome is Outcome.UNPROVED and require_proof:
        raise CheckFailed(f"{doubted}: {reason}; nothing was written.", report)
