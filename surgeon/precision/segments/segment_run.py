"""One stretch of a converted model run by itself, on what the original's inner tensors held: what a child does."""

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
from surgeon.precision.segments.activation_ranges import GROSS, Far
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

Arrays = Mapping[str, np.ndarray]
TURNS, FEW = 3, 256
"""How many sets of random directions the roundings of a stretch are shaken in that hands on few elements; of many, one
set shows what the largest error is.
"""
MARGIN = 4.0
"""How often what the reference moves by then a stretch may be off: one set of roundings is no worst case."""
_FAR = 1e9  # of what is infinitely far, in numbers that JSON holds
_HALF = 0.5  # units in the last place by which a rounding to nearest errs at most


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
    """Inputs that are also scaled; empty where the segment neither divides nor takes a root."""
    inner: frozenset[str] = frozenset()
    """Inner tensors that are outputs only to compare them at scaled activations."""

    def reference(self, change: Callable[..., ModelProto | None]) -> Float64Reference:
        """The stretch in float64, changed throughout, in bodies too.  Raises SessionError."""
        return Float64Reference(
            self.upgraded_model or self.model, custom_ops=self.custom_ops, change=partial(change, bodies=True)
        )


def hold(asked: SegmentJob, _: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """Hold a stretch against itself in float64: {"error", "allowed", "output"} of the worst output, or {"why"}.

    With {"far"}, a size and an output, where it is off only for activations of another size.

    Each step of a computation errs by fl(x op y) = (x op y)(1 + d) with |d| <= u, u being half a unit in the last place
    (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 2.2).  What such errors come to at the end is
    measured: the reference runs with each of its numbers moved by u to a random side (Parker, Monte Carlo Arithmetic,
    1997), up to `TURNS` times.  A stretch may be off by `MARGIN` times the most that it moved by, and by u once more
    for what it hands on; all as parts of the largest number in the output.
    """
    import_registry(asked.implementations)
    unit = float(ml_dtypes.finfo(dtype_of(asked.new)).eps) * _HALF
    try:
        with ExitStack() as stack:
            ways = list(_ways(asked, stack))
            if not ways:
                return {"why": "nothing here runs it"}, []
            reference = stack.enter_context(asked.reference(perturb_rounding))
            return _held(reference, ways, asked, unit), []
    except SessionError as refused:
        return {"why": refused.message.rstrip(".")}, []


def _ways(asked: SegmentJob, stack: ExitStack) -> Iterator[Callable[[Arrays], Mapping[str, np.ndarray]]]:
    """What runs the stretch in the new dtype: ONNX Runtime where it has kernels, and float64 rounded at each node."""
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


def _held(
    reference: Float64Reference,
    ways: Sequence[Callable[[Arrays], Mapping[str, np.ndarray]]],
    asked: SegmentJob,
    unit: float,
) -> dict[str, Any]:
    """The output that is worst: off by more than is allowed to it, or lost in roundings, or nearest to its limit."""
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
            allowed[name] = max(allowed.get(name, 0.0), apart(exact.get(name, array), array, new))
    errors = [(0.0, unit, "")]
    for run in ways:
        found = outer(run(asked.feeds))
        for name in sorted(exact.keys() & found.keys()):  # a sequence may come in other pieces
            error, most = apart(exact[name], found[name], new), MARGIN * allowed[name] + unit
            errors.append((min(error, _FAR), min(most, _FAR), name))
    error, most, name = max(errors, key=lambda item: harm(item[0], item[1]))
    if error <= most and (far := _far(reference, ways, asked)) is not None:
        return far
    return {"error": error, "allowed": most, "output": name}


def _far(
    reference: Float64Reference, ways: Sequence[Callable[[Arrays], Mapping[str, np.ndarray]]], asked: SegmentJob
) -> dict[str, Any] | None:
    """What is grossly off for activations of another size; None where nothing is, or nothing runs there."""

    def exact(feeds: Arrays) -> Mapping[str, np.ndarray]:
        return reference.run({**feeds, AMPLITUDE_INPUT: np.array(0.0), SEED_INPUT: np.array(0)})

    if not asked.activations:
        return None
    try:
        found = Far(exact, asked.feeds, asked.activations, asked.new).worst(ways, apart)
    except SessionError:  # an index, say, that follows from activations: such a stretch has one size
        return None
    if found is None:
        return None
    error, size, name = found
    return {"error": min(error, _FAR), "allowed": GROSS, "output": name, "far": (size, name)}


def harm(error: float, allowed: float) -> tuple[bool, bool, float]:
    """By which of several outputs or runs the worst comes first: off by too much, then lost in roundings."""
    return error > allowed, allowed > MAX_MEANINGFUL_ERROR, error / allowed


def apart(exact: np.ndarray, other: np.ndarray, new: int) -> float:
    """How far a value is from what it should be: as a part of the largest, of no floats how many differ.

    What is below the new dtype's lowest number is as good as that: so low are fills of masks alone.
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
