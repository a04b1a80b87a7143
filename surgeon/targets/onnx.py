"""The standard alone: ops of ONNX, at the opset of the model."""

from typing import TYPE_CHECKING

from surgeon.target_registry import ANY, is_standard
from surgeon.targets.target import Target

if TYPE_CHECKING:
    from onnx import ModelProto

    from surgeon.targets.lint.finding import Diagnostics


def _check_header(model: "ModelProto", found: "Diagnostics") -> None:
    from surgeon.targets.lint.model_versions import ask_onnx

    ask_onnx(model, found)


TARGET = Target(
    name="onnx",
    title="ONNX",
    writes=("onnx", ANY),
    runs=("onnx",),
    wants_shapes=True,
    check_header=_check_header,
    reads=is_standard,
)
