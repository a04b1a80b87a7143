"""What a child does for proofs, and what came of it in plain values."""

from typing import Any

import numpy as np
import onnx

from surgeon.proof.proof_case import Experiment, Trace, Traced
from surgeon.proof.site.prove_region import run_experiment
from surgeon.runtime.implementations.implementation import receive
from surgeon.runtime.processes.dataclass_json import to_plain
from surgeon.runtime.processes.worker_main import Note


def prove(experiment: Experiment, note: Note) -> tuple[dict[str, Any], list[Any]]:
    """Run an experiment in this process; the proof as plain values.  Notes each step, should it be the last."""
    receive(experiment.options.implementations)
    return to_plain(run_experiment(experiment, note)), []


def trace(asked: Trace, note: Note) -> tuple[dict[str, Any], list[Any]]:
    """Run a model once in this process; what was found as plain values."""
    receive(asked.options.implementations)
    return to_plain(found_by(asked)), []


def found_by(asked: Trace) -> Traced:
    """Run a model once; the dtype and the shape of each inner tensor that was found, and why others were not."""
    from surgeon.proof.model.inner_tensors import find_inner  # not at the top: few models have to be run for that

    options = asked.options
    found = find_inner(
        asked.model,
        asked.skeleton,
        asked.names,
        seed=options.seed,
        dims=options.dims,
        custom_ops=options.custom_ops,
    )
    return Traced({name: (_dtype_of(array), array.shape) for name, array in found.values.items()}, found.refusal)


def _dtype_of(array: np.ndarray) -> int:
    return int(onnx.helper.np_dtype_to_tensor_dtype(array.dtype))
