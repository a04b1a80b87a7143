"""What others do to the same file, each in a process of its own: `python -m tests.real_models.peers PEER IN OUT`.

onnxslim          onnxslim.slim
onnxsim           onnxsim.simplify, with the check that it makes by default
optimize_for_ort  onnxscript's fusions for ONNX Runtime; it optimises before and after
ort               ONNX Runtime's own optimizer, all levels, saved offline
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any


def onnxslim(source: str, target: str) -> None:
    import onnxslim as package

    package.slim(source, target)


def onnxsim(source: str, target: str) -> None:
    import onnx
    import onnxsim as package

    model, fine = package.simplify(onnx.load(source))
    if not fine:
        raise SystemExit("its own check found the result to differ")
    onnx.save(model, target)


def optimize_for_ort(source: str, target: str) -> None:
    from onnxscript import ir
    from onnxscript.rewriter import ort_fusions

    found: Any = ort_fusions.optimize_for_ort(ir.load(source))
    ir.save(found[0] if isinstance(found, tuple) else found, target)


def ort(source: str, target: str) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.optimized_model_filepath = target
    options.log_severity_level = 4
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


PEERS = {"onnxslim": onnxslim, "onnxsim": onnxsim, "optimize_for_ort": optimize_for_ort, "ort": ort}
PACKAGES = {"onnxslim": "onnxslim", "onnxsim": "onnxsim", "optimize_for_ort": "onnxscript", "ort": "onnxruntime"}


def present() -> list[str]:
    """The peers whose packages are installed here."""
    return [peer for peer, package in PACKAGES.items() if find_spec(package) is not None]


if __name__ == "__main__":
    PEERS[sys.argv[1]](*sys.argv[2:4])
