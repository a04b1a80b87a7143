"""One segment of a converted model, run in a worker on values of the original's inner tensors."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from onnx import ModelProto

from surgeon.file.tensors.decoding import dtype_of
from surgeon.precision.convert_report import MAX_MEANINGFUL_ERROR
from surgeon.precision.segments.activation_ranges import GROSS, Arrays, ScaledActivations
from surgeon.runtime.implementations.implementation import import_registry
from surgeon.runtime.numerics.rounding_perturbation import (
    AMPLITUDE_INPUT,
    SEED_INPUT,
    perturb_rounding,
    round_to_narrow,
)
from surgeon.runtime.processes.worker_main import ReportProgress
from surgeon.runtime.sessions.float64_reference import Float64Reference
from surgeon.runtime.sessions.model_session import open_model
from surgeon.runtime.sessions.ort_session import SessionError

TURNS, FEW = 3, 256
"""Rounding perturbations of a segment with few output elements; with many, one perturbation shows the largest error."""
MARGIN = 4.0
"""Factor on the change of the perturbed reference: one perturbation is not the worst case."""
_FAR = 1e9  # in place of infinity, which JSON cannot hold
_HALF = 0.5  # largest error of rounding to nearest, in units in the last place


@dataclass(frozen=True, slots=True)
class SegmentJob:
    """A segment as a model of the new dtype, with its inputs."""

    model: ModelProto
    """The segment."""
    feeds: Arrays
    """Inputs by name."""
    new: int
    """The new dtype, as `TensorProto.DataType`."""
    custom_ops: Sequence[Path | str]
    """Libraries and Python files of custom ops."""
    implementations: bytes
    """Implementations of the user's process, as `export_registry` gives them."""
    upgraded_model: ModelProto | None = None
    """The model at an opset that supports rounding perturbation, where its own is older."""
    activations: Sequence[str] = ()
    """Inputs that are also scaled; empty if the segment neither divides nor takes a root."""
    inner: frozenset[str] = frozenset()
    """Inner tensors that are outputs only to compare them at scaled activations."""

    def reference(self, change: Callable[..., ModelProto | None]) -> Float64Reference:
        """The segment in float64, changed throughout, in bodies too.  Raises SessionError."""
        return Float64Reference(
            self.upgraded_model or self.model, custom_ops=self.custom_ops, change=partial(change, bodies=True)
        )


def compare_with_float64(asked: SegmentJob, _: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """Compare a segment with itself in float64: {"error", "allowed", "output"} of the worst output, or {"why"}.

    With {"far"}, a magnitude and an output, where only scaled activations fail.

    Each step of a computation errs by fl(x op y) = (x op y)(1 + d) with |d| <= u, u being half a unit in the last place
    (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 2.2).  The sum of such errors is measured: the
    reference runs with each of its numbers moved by u in a random direction (Parker, Monte Carlo Arithmetic, 1997), up
    to `TURNS` times.  A segment may err by `MARGIN` times the largest change, and by u once more for its outputs; all
    relative to the largest magnitude of the output.
    """
    import_registry(asked.implementations)
    unit = float(ml_dtypes.finfo(dtype_of(asked.new)).eps) * _HALF
    try:
        with ExitStack() as stack:
            ways = list(_ways(asked, stack))
            if not ways:
                return {"why": "no runtime here runs it"}, []
            reference = stack.enter_context(asked.reference(perturb_rounding))
            return _worst_error(reference, ways, asked, unit), []
    except SessionError as refused:
        return {"why": refused.message.rstrip(".")}, []


def _ways(asked: SegmentJob, stack: ExitStack) -> Iterator[Callable[[Arrays], Mapping[str, np.ndarray]]]:
    """Runs of the segment in the new dtype: ONNX Runtime if it has kernels, and float64 rounded at each node."""
    try:
        yield stack.enter_context(open_model(asked.model, asked.custom_ops)).run
    except SessionError as refused:
        if not refused.is_unsupported:
            raise
    try:
        yield stack.enter_context(asked.reference(round_to_narrow)).run
    except SessionError as refused:
        if not refused.is_unsupported:
            raise


def _worst_error(
    reference: Float64Reference,
    ways: Sequence[Callable[[Arrays], Mapping[str, np.ndarray]]],
    asked: SegmentJob,
    unit: float,
) -> dict[str, Any]:
    """The worst output: beyond its limit, or lost in rounding, or nearest to its limit."""
    new = asked.new

    def outer(answer: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: array for name, array in answer.items() if name not in asked.inner}

    def moved(amount: float, turn: int) -> dict[str, np.ndarray]:
        return outer(reference.run({**asked.feeds, AMPLITUDE_INPUT: np.array(amount), SEED_INPUT: np.array(turn)}))

    exact = moved(0.0, 0)
    allowed = dict.fromkeys(exact, 0.0)
    has_few = min((array.size for array in exact.values()), default=0) < FEW
    for turn in range(1, 1 + (TURNS if has_few else 1)):
        for name, array in moved(_HALF, turn).items():
            allowed[name] = max(allowed.get(name, 0.0), relative_error(exact.get(name, array), array, new))
    errors = [(0.0, unit, "")]
    for run in ways:
        found = outer(run(asked.feeds))
        for name in sorted(exact.keys() & found.keys()):  # a sequence may have other elements
            error, most = relative_error(exact[name], found[name], new), MARGIN * allowed[name] + unit
            errors.append((min(error, _FAR), min(most, _FAR), name))
    error, most, name = max(errors, key=lambda item: severity(item[0], item[1]))
    if error <= most and (far := _worst_scaled(reference, ways, asked)) is not None:
        return far
    return {"error": error, "allowed": most, "output": name}


def _worst_scaled(
    reference: Float64Reference, ways: Sequence[Callable[[Arrays], Mapping[str, np.ndarray]]], asked: SegmentJob
) -> dict[str, Any] | None:
    """The output with a gross error at scaled activations; None if there is none, or nothing runs there."""

    def exact(feeds: Arrays) -> Mapping[str, np.ndarray]:
        return reference.run({**feeds, AMPLITUDE_INPUT: np.array(0.0), SEED_INPUT: np.array(0)})

    if not asked.activations:
        return None
    try:
        found = ScaledActivations(exact, asked.feeds, asked.activations, asked.new).worst(ways, relative_error)
    except SessionError:  # as for an index that depends on activations
        return None
    if found is None:
        return None
    error, size, name = found
    return {"error": min(error, _FAR), "allowed": GROSS, "output": name, "far": (size, name)}


def severity(error: float, allowed: float) -> tuple[bool, bool, float]:
    """Sort key of outputs or runs: beyond the limit, then lost in rounding."""
    return error > allowed, allowed > MAX_MEANINGFUL_ERROR, error / allowed


def relative_error(exact: np.ndarray, other: np.ndarray, new: int) -> float:
    """The error of a value, relative to the largest magnitude; for others than floats, the fraction that differs.

    Numbers below the new dtype's lowest count as equal to it: only fill values of masks are so low.
    """
    if other.shape != exact.shape:
        return float("inf")
    if exact.dtype != np.float64:
        return float(np.mean(exact != other)) if exact.size else 0.0
    limits = ml_dtypes.finfo(dtype_of(new))
    low, tiny = float(limits.min), float(limits.smallest_normal)
    usual = ~np.isnan(exact)
    one, two = (np.maximum(side[usual].astype(np.float64), low) for side in (exact, other))
    if np.isnan(two).any():
        return float("inf")
    seen = one[np.isfinite(one) & (one > low)]
    with np.errstate(invalid="ignore"):
        gap = np.where(one == two, 0.0, np.abs(one - two))
    return float(gap.max(initial=0.0)) / max(float(np.abs(seen).max(initial=0.0)), tiny)
