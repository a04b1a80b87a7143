"""How far the original's own outputs move for no reason that a user would call a change.

Asked only when a comparison has failed.  A LayerNorm of mean 10^4, or a value on the edge of a quantisation step,
answers differently to the last bit of its inputs; a difference of that size says nothing about a rewrite.
Two probes: every float input moved by one unit in the last place, and ONNX Runtime's own optimisations turned on,
which re-associate sums the way any fusion does (and reach models whose inputs are all integers).
"""

import pathlib
from collections.abc import Iterable, Mapping

import numpy as np
from onnx import ModelProto

from surgeon.runtime.numerics.array_comparison import finite_gap
from surgeon.runtime.numerics.input_perturbation import moved_by_one_ulp
from surgeon.runtime.sessions.isolated_session import Away
from surgeon.runtime.sessions.ort_session import SessionError

Feeds = Mapping[str, np.ndarray]
Outputs = Mapping[str, np.ndarray]

# The part of an output's scale up to which noise may widen the tolerance.  Beyond it nothing can be told.
CEILING = 1e-2


def measure(
    model: pathlib.Path | ModelProto, away: Away, runs: Iterable[tuple[Feeds, Outputs]]
) -> list[dict[str, float]]:
    """Return, for each run of the model, how far each output moves under either probe (in the output's own unit)."""
    listed = list(runs)
    noise: list[dict[str, float]] = [{} for _ in listed]
    for optimised in (False, True):
        try:
            with away.open(model, optimised=optimised) as session:
                for (feeds, outputs), known in zip(listed, noise, strict=True):
                    answer = session.run(feeds if optimised else moved_by_one_ulp(feeds))
                    for name, array in outputs.items():
                        if name in answer and answer[name].shape == array.shape:
                            known[name] = max(known.get(name, 0.0), finite_gap(array, answer[name]))
        except SessionError:
            continue  # a probe that does not run measures nothing: the difference stands as it is
    return noise
