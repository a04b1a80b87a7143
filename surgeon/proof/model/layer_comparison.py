"""Comparison of inner tensors of two models: the first that leaves tolerance.

A tensor is compared where nodes of both main graphs produce one of its name; inside of a rewritten region there are
none.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from onnx import ModelProto

from surgeon.errors import SurgeonError
from surgeon.file.model import Model
from surgeon.proof.check_result import LayerComparison
from surgeon.proof.model.exposed_outputs import HELD_BYTES, exposing, fetch, produced_tensors
from surgeon.proof.model.output_noise import measure_noise
from surgeon.proof.model.trial import Trial
from surgeon.runtime.numerics.array_comparison import Comparison, compare, ignore_non_finite
from surgeon.runtime.numerics.tensor_judge import ROUNDING_FACTOR
from surgeon.runtime.sessions.isolated_session import IsolatedRuntime

_SHOWN = 8  # layers in the result
_PROBED = 64  # layers beyond tolerance that are probed for noise


@dataclass(frozen=True, slots=True)
class _Ends:
    """Two models to compare, and the settings of the comparison."""

    original: Path | ModelProto
    """The original model."""
    rewritten: Path | ModelProto
    """The rewritten model."""
    away: IsolatedRuntime
    """Runs both in a child process."""
    rtol: float | None
    """In place of the default of each dtype."""
    atol: float | None
    """In place of the default of each dtype."""


def compare_layers(
    original: Path | ModelProto,
    rewritten: Path | ModelProto,
    *,
    skeleton: ModelProto,
    trial: Trial,
    away: IsolatedRuntime,
    rtol: float | None,
    atol: float | None,
) -> LayerComparison:
    """Compare all tensors of both main graphs on the inputs of one trial, outputs of the graph included.

    Stops after the part of the model with the first tensor beyond tolerance.  As for outputs, errors that the
    original's own noise explains do not count.  The result has the reason if the comparison cannot run.
    """
    ends = _Ends(original, rewritten, away, rtol=rtol, atol=atol)
    try:
        with Model.open(rewritten) as opened:
            there = set(produced_tensors(opened.skeleton))
        names = [name for name in produced_tensors(skeleton) if name in there]
        found = list(_compared(ends, names, trial))
    except SurgeonError as error:
        return LayerComparison(0, "", (), f"The layers cannot be compared: {error}")
    errors = [comparison.error for comparison in found]
    first = next((error.name for error in errors if not error.ok), "")
    worst = sorted(errors, key=lambda error: (not error.ok, error.severity), reverse=True)[:_SHOWN]
    shown = {error.name for error in worst} | {first}
    return LayerComparison(len(errors), first, tuple(error for error in errors if error.name in shown))


def _compared(ends: _Ends, names: Sequence[str], trial: Trial) -> Iterator[Comparison]:
    """Yield the comparison of each tensor in order, up to the end of the part with the first difference."""
    position = {name: place for place, name in enumerate(names)}
    with exposing(ends.original, names) as before, exposing(ends.rewritten, names) as after:
        rest = list(names)
        while rest:
            held, rest = _values(before, ends.away, trial, rest)
            found: list[Comparison] = []
            failing: dict[str, np.ndarray] = {}
            with ends.away.open(after) as session:
                for _, values in fetch(session, trial.feeds, list(held)):
                    for name in values.keys() & held.keys():
                        other = ignore_non_finite(held[name], values[name]) if trial.wide else values[name]
                        comparison = compare(name, held[name], other, rtol=ends.rtol, atol=ends.atol)
                        found.append(comparison)
                        if not comparison.error.ok:
                            failing[name] = held[name]
            held.clear()
            found.sort(key=lambda comparison: position[comparison.error.name])
            found = _without_noise(ends, trial, found, failing)
            yield from found
            if not all(comparison.error.ok for comparison in found):
                return


def _values(
    model: Path | ModelProto, away: IsolatedRuntime, trial: Trial, names: Sequence[str]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the original's tensors up to the limit of memory, and the remaining names."""
    held: dict[str, np.ndarray] = {}
    size, done = 0, 0
    with away.open(model) as session:
        for batch, values in fetch(session, trial.feeds, names):
            tensors = {name: values[name] for name in batch if name in values}  # sequences and maps are not compared
            held.update(tensors)
            size += sum(array.nbytes for array in tensors.values())
            done = names.index(batch[-1]) + 1
            if size > HELD_BYTES:  # both models are opened again for the rest
                return held, list(names[done:])
    return held, []


def _without_noise(
    ends: _Ends, trial: Trial, found: list[Comparison], failing: Mapping[str, np.ndarray]
) -> list[Comparison]:
    """Accept errors that the original's own noise explains."""
    probed = [comparison.error.name for comparison in found if comparison.error.name in failing][:_PROBED]
    if not probed:
        return found
    with exposing(ends.original, probed) as before:
        [noise] = measure_noise(before, ends.away, [(trial.feeds, {name: failing[name] for name in probed})])
    tolerated = []
    for comparison in found:
        error = comparison.error
        allowed = error.allowed + ROUNDING_FACTOR * noise.get(error.name, 0.0)
        if not error.ok and error.max_abs <= allowed:
            comparison = Comparison(replace(error, allowed=allowed, ok=True), "")
        tolerated.append(comparison)
    return tolerated
