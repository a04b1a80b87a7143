"""The tasks that a worker runs for proofs, with results as plain values."""

from typing import Any

import numpy as np
import onnx

from surgeon.proof.proof_case import InnerShapesRequest, ProofCase, TracedShapes
from surgeon.proof.site.prove_region import prove_case
from surgeon.runtime.implementations.implementation import import_registry
from surgeon.runtime.processes.dataclass_json import to_json_value
from surgeon.runtime.processes.worker_main import ReportProgress


def prove(case: ProofCase, note: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """Run a case in this process; the proof as plain values.  Reports each step, because it may be the last."""
    import_registry(case.options.implementations)
    return to_json_value(prove_case(case, note)), []


def trace(asked: InnerShapesRequest, note: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """Run a model once in this process; its inner shapes as plain values."""
    import_registry(asked.options.implementations)
    return to_json_value(found_by(asked)), []


def found_by(asked: InnerShapesRequest) -> TracedShapes:
    """Run a model once; dtype and shape of the inner tensors, and why some are missing."""
    # Not at the top: few models need it.
    from surgeon.proof.model.inner_tensors import run_inner_tensors

    options = asked.options
    found = run_inner_tensors(
        asked.model,
        asked.skeleton,
        asked.names,
        seed=options.seed,
        dims=options.dims,
        custom_ops=options.custom_ops,
    )
    return TracedShapes({name: (_dtype_of(array), array.shape) for name, array in found.values.items()}, found.refusal)


def _dtype_of(array: np.ndarray) -> int:
    return int(onnx.helper.np_dtype_to_tensor_dtype(array.dtype))
