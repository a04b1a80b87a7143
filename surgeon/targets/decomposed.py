"""Every op decomposed into simpler ops."""

from surgeon.target_registry import DECOMPOSED, BaseTarget, is_standard
from surgeon.targets.ort import TARGET as ORT

TARGET = BaseTarget(
    DECOMPOSED, "ONNX", writes=(DECOMPOSED,), runs=(DECOMPOSED,), reads=is_standard, proof_runtime=ORT.proof_runtime
)
