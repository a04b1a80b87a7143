"""The standard alone: ops of ONNX, at the opset of the model."""

from typing import TYPE_CHECKING

from surgeon.target import ANY
from surgeon.targets.target import Target

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

    from surgeon.diagnosis.finding import Diagnostics


def _check_header(model: "ModelProto", found: "Diagnostics") -> None:
    from surgeon.diagnosis.header import ask_onnx

    ask_onnx(model, found)


def _reads(node: "NodeProto") -> bool:
    return not node.domain or node.domain.split(".")[:2] == ["ai", "onnx"]


TARGET = Target(
    name="onnx",
    title="ONNX",
    writes=("onnx", ANY),
    runs=("onnx",),
    wants_shapes=True,
    check_header=_check_header,
    reads=_reads,
)
