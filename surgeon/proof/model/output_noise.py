"""How far rounding moves the original's own outputs.

Measured only when a comparison has failed.  A LayerNorm of mean 10^4, or a value on the edge of a quantisation step,
depends on the last bit of its inputs; a difference of that size says nothing about a rewrite.  There are two probes:
every float input moved by one unit in the last place, or without float inputs every table that a lookup reads; and ONNX
Runtime's own optimisations, which re-associate sums as any fusion does.
"""

import pathlib
from collections.abc import Iterable, Mapping
from contextlib import nullcontext

import numpy as np
from onnx import ModelProto

from surgeon.errors import ModelFileError
from surgeon.file.model import Model
from surgeon.proof.model.distinguishing_inputs import looked_up_in
from surgeon.proof.model.exposed_outputs import HELD_BYTES, exposing
from surgeon.runtime.numerics.array_comparison import max_abs_difference
from surgeon.runtime.numerics.input_perturbation import is_real, perturb_by_ulp
from surgeon.runtime.sessions.isolated_session import IsolatedRuntime
from surgeon.runtime.sessions.ort_session import SessionError

Feeds = Mapping[str, np.ndarray]
Outputs = Mapping[str, np.ndarray]

# The noise, relative to an output's scale, up to which it may widen the tolerance.  Beyond it nothing is proved.
MAX_NOISE = 1e-2


def measure_noise(
    model: pathlib.Path | ModelProto, away: IsolatedRuntime, runs: Iterable[tuple[Feeds, Outputs]]
) -> list[dict[str, float]]:
    """Return, for each run, how far each output moves under either probe, in the output's own unit."""
    listed = list(runs)
    noise: list[dict[str, float]] = [{} for _ in listed]
    has_floats = any(array.size and is_real(array) for feeds, _ in listed for array in feeds.values())
    tables = {} if has_floats else _tables(model)
    for optimised in (False, True):
        try:
            moving = exposing(model, (), fed=tables) if tables and not optimised else nullcontext(model)
            with moving as source, away.open(source, optimised=optimised) as session:
                for (feeds, outputs), known in zip(listed, noise, strict=True):
                    answer = session.run(feeds if optimised else perturb_by_ulp({**tables, **feeds}))
                    for name, array in outputs.items():
                        if name in answer and answer[name].shape == array.shape:
                            known[name] = max(known.get(name, 0.0), max_abs_difference(array, answer[name]))
        except (SessionError, ModelFileError):
            continue  # a probe that does not run measures nothing
    return noise


def _tables(model: pathlib.Path | ModelProto) -> dict[str, np.ndarray]:
    """Stored float tables that a lookup reads, by name, without large ones, because each run gets them as inputs."""
    with Model.open(model) as opened:
        arrays = {tensor.name: opened.value(tensor) for tensor, _ in looked_up_in(opened)}
    return {name: array for name, array in arrays.items() if is_real(array) and array.nbytes <= HELD_BYTES}
