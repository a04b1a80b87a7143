"""The peers of surgeon on whole transformers, file to file: `python -m ...transformer_peers NAME KIND IN OUT`.

KIND is a type of model, the number of heads and the width, for onnxruntime.transformers.optimizer: `bert 12 768`.

surgeon       the rules for transformers, every site proved; what fails its proof is rolled back
ort           ONNX Runtime's own optimizer, all levels, saved offline
transformers  onnxruntime.transformers.optimizer with the model type and its default level
onnxscript    optimize and optimize_for_ort
fusions       those of the package transformers, which begin with onnxscript's; only for the table of `--measure`

On a GPU, where half precision is what one goes for:

half          surgeon convert --rules ort --ep cuda, to float16
halves        onnxruntime.transformers.optimizer, then its convert_float_to_float16
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


def transformers(kind: str, source: str, target: str, to_half: bool = False, **on: bool) -> None:
    from onnxruntime.transformers.optimizer import optimize_model

    if not kind:
        raise SystemExit("no type of model fits")
    arch, heads, width = kind.split()
    made = optimize_model(source, model_type=arch, num_heads=int(heads), hidden_size=int(width), **on)
    if to_half:
        made.convert_float_to_float16(keep_io_types=True)
    made.save_model_to_file(target)


def onnxscript(_: str, source: str, target: str) -> None:
    from onnxscript import ir, optimizer
    from onnxscript.rewriter import ort_fusions

    model: Any = ir.load(source)
    optimizer.optimize(model)
    found = ort_fusions.optimize_for_ort(model)
    ir.save(found[0] if isinstance(found, tuple) else found, target)


def fusions(_: str, source: str, target: str) -> None:
    from onnxscript import ir
    from transformers.exporters.onnxruntime_fusions import fuse_for_onnxruntime

    model = ir.load(source)
    fuse_for_onnxruntime(model, "cpu")
    ir.save(model, target)


def on_gpu(_: str, source: str, target: str) -> None:
    import surgeon as package

    package.rewrite(source, "ort", output=target, ep="cuda", keep_going=True)


def half(_: str, source: str, target: str) -> None:
    import surgeon as package

    package.convert(source, "float16", rules="ort", output=target, ep="cuda")


def transformers_on_gpu(kind: str, source: str, target: str) -> None:
    transformers(kind, source, target, use_gpu=True)


def halves(kind: str, source: str, target: str) -> None:
    transformers(kind, source, target, to_half=True, use_gpu=True)


PEERS = {"surgeon": surgeon, "ort": ort, "transformers": transformers, "onnxscript": onnxscript}
GPU_PEERS = {"surgeon": on_gpu, "transformers": transformers_on_gpu, "half": half, "halves": halves}

if __name__ == "__main__":
    known = GPU_PEERS if sys.argv[5:] else {**PEERS, "fusions": fusions}
    known[sys.argv[1]](*sys.argv[2:5])
