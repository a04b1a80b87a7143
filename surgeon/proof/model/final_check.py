"""Checks of the output model as a whole: whether it is valid, and whether it computes the same as the original."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from surgeon.file.model import Model
from surgeon.proof.check_options import CheckOptions

if TYPE_CHECKING:
    from surgeon.proof.model.model_check import ModelCheck


def structural_fault(model: Model, written: onnx.ModelProto | Path | Model) -> str | None:
    """A violation of ONNX's rules in the output model that the original does not have, or None."""
    from surgeon.ir.verify_rewrite import new_violations  # not at the top: runs without a check do not need it

    with nullcontext(written) if isinstance(written, Model) else Model.open(written) as after:
        complaints = new_violations(model.skeleton, after.skeleton)
        if model.is_sorted and not after.is_sorted:
            complaints.append("The nodes are not in topological order, as those of the original are.")
    return complaints[0].rstrip(".") if complaints else None


def model_check(model: Model, original: onnx.ModelProto | Path, options: CheckOptions) -> "ModelCheck":
    """The check of whole models under ONNX Runtime: one original, and any number to compare with it."""
    from surgeon.proof.model.model_check import ModelCheck

    model.check_data(sums=True)  # ONNX Runtime reads all data and checks no sums
    return ModelCheck(original, model.skeleton, options)
