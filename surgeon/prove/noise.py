"""How far the original's own outputs move for no reason that a user would call a change.

Asked only when a comparison has failed.  A LayerNorm of mean 10^4, or a value on the edge of a quantisation step,
answers differently to the last bit of its inputs; a difference of that size says nothing about a rewrite.
Two probes: every float input moved by one unit in the last place, and ONNX Runtime's own optimisations turned on,
which re-associate sums the way any fusion does (and reach models whose inputs are all integers).
"""

import pathlib
import zlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from onnx import ModelProto

from surgeon.prove.compare import dtype_name, finite_gap, tolerance
from surgeon.prove.runtime import Session, SessionError

Feeds = Mapping[str, np.ndarray]
Outputs = Mapping[str, np.ndarray]

# The part of an output's scale up to which noise may widen the tolerance.  Beyond it nothing can be told.
CEILING = 1e-2
# An error may exceed the tolerance by this many times the noise: both probes see one sample of it.
ALLOWANCE = 4.0


def measure(
    model: pathlib.Path | ModelProto, custom_ops: Sequence[pathlib.Path | str], runs: Iterable[tuple[Feeds, Outputs]]
) -> list[dict[str, float]]:
    """Return, for each run of the model, how far each output moves under either probe (in the output's own unit)."""
    listed = list(runs)
    noise: list[dict[str, float]] = [{} for _ in listed]
    for optimised in (False, True):
        try:
            with Session(model, custom_ops, optimised=optimised) as session:
                for (feeds, outputs), known in zip(listed, noise, strict=True):
                    answer = session.run(feeds if optimised else nudged(feeds))
                    for name, array in outputs.items():
                        if name in answer and answer[name].shape == array.shape:
                            known[name] = max(known.get(name, 0.0), finite_gap(array, answer[name]))
        except SessionError:
            continue  # a probe that does not run measures nothing: the difference stands as it is
    return noise


def nudged(feeds: Feeds) -> dict[str, np.ndarray]:
    """Return the inputs with every float moved to the next representable value, up or down at random."""
    return {name: _nudged(array, zlib.crc32(name.encode())) for name, array in feeds.items()}


def _nudged(array: np.ndarray, seed: int) -> np.ndarray:
    if array.dtype.kind != "f" or tolerance(dtype_name(array)) == (0.0, 0.0):
        return array
    signs = np.random.default_rng(seed).choice([-np.inf, np.inf], array.shape).astype(array.dtype)
    # Zeros and small whole numbers are often meant (masks, indices held as floats): they stay.
    return np.where(array == np.round(array), array, np.nextafter(array, signs)).astype(array.dtype)
