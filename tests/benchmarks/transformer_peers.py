"""What is held against surgeon on whole transformers, file to file: `python -m ...transformer_peers NAME ARCH IN OUT`.

surgeon       the rules for transformers, every site proved; what fails its proof is rolled back
ort           ONNX Runtime's own optimizer, all levels, saved offline
transformers  onnxruntime.transformers.optimizer with the model type and its default level
onnxscript    optimize and optimize_for_ort
"""

from __future__ import annotations

import sys
from typing import Any


def surgeon(_: str, source: str, target: str) -> None:
    import surgeon as package

    try:
        package.rewrite(source, "transformers", output=target)
    except package.CheckFailed as error:  # what was proved is written
        sys.stderr.write(f"{str(error)[:300]}\n")


def ort(_: str, source: str, target: str) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.optimized_model_filepath = target
    options.log_severity_level = 4
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def transformers(arch: str, source: str, target: str) -> None:
    from onnxruntime.transformers.optimizer import optimize_model

    optimize_model(source, model_type=arch, num_heads=12, hidden_size=768).save_model_to_file(target)


def onnxscript(_: str, source: str, target: str) -> None:
    from onnxscript import ir, optimizer
    from onnxscript.rewriter import ort_fusions

    model: Any = ir.load(source)
    optimizer.optimize(model)
    found = ort_fusions.optimize_for_ort(model)
    ir.save(found[0] if isinstance(found, tuple) else found, target)


PEERS = {"surgeon": surgeon, "ort": ort, "transformers": transformers, "onnxscript": onnxscript}

if __name__ == "__main__":
    PEERS[sys.argv[1]](*sys.argv[2:5])
