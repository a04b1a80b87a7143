"""The ONNX standard: its ops, at the opset of the model."""

from typing import TYPE_CHECKING

from surgeon.target_registry import ANY_KIND, is_standard
from surgeon.targets.ort import TARGET as ORT
from surgeon.targets.target import Target

if TYPE_CHECKING:
    from onnx import ModelProto

    from surgeon.targets.lint.finding import DiagnosticCollector


def _check_header(model: "ModelProto", found: "DiagnosticCollector") -> None:
    from surgeon.targets.lint.model_versions import check_with_onnx

    check_with_onnx(model, found)


TARGET = Target(
    name="onnx",
    title="ONNX",
    writes=("onnx", ANY_KIND),
    runs=("onnx",),
    wants_shapes=True,
    check_header=_check_header,
    reads=is_standard,
    proof_runtime=ORT.proof_runtime,
)
