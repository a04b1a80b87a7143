"""ONNX Runtime's own ops, also in place of standard ones: a variant of `ort`."""

from surgeon.target_registry import ANY_KIND, BaseTarget
from surgeon.targets.ort import CPU
from surgeon.targets.ort import TARGET as ORT

TARGET = BaseTarget(
    "contrib",
    "ONNX Runtime",
    writes=("ort", ANY_KIND),
    runs=("ort",),
    providers=(CPU,),
    proof_runtime=ORT.proof_runtime,
)
