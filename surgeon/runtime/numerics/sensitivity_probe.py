"""How far the original of one region moves, asked of what runs it: only where that decides about a result."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import onnx
from onnx import FunctionProto

from surgeon.runtime.numerics.input_perturbation import perturb_by_ulp, perturb_by_units
from surgeon.runtime.numerics.rounding_perturbation import AMPLITUDE_INPUT, SEED_INPUT, perturb_rounding
from surgeon.runtime.numerics.sensitivity import STEP_FRACTION, Pair, Sensitivity, classify_sensitivity, spacing
from surgeon.runtime.numerics.tensor_error import TensorError
from surgeon.runtime.sessions.float64_reference import Float64Reference
from surgeon.runtime.sessions.ort_session import SessionError

Feeds = Mapping[str, np.ndarray]
Answers = dict[str, np.ndarray]

DIRECTIONS, MAX_DIRECTIONS = 4, 32
"""Directions that are tried: each is one sample of what rounding does, and a jump may take many until it is seen."""
_NEAR = 4.0  # times what is allowed: of a number that is like no other four samples may all be as much too small
# Units in the last place of float64: where that is the dtype itself, nothing finer is there to move by a part of.
_UNITS_OF_DOUBLES = 1024.0
_MOST_STEPS = 64.0  # between two numbers, in units in the last place of the largest: beyond, a result jumps


class SensitivityProbe:
    """What the original moves by.  A context manager.

    mini: the original.  reference: what runs it in float64, None where nothing does; first: what runs it as it is.
    whole: inputs whose whole numbers are moved too, for they mean nothing.
    """

    def __init__(
        self,
        mini: onnx.ModelProto,
        bodies: Mapping[str, FunctionProto],
        custom_ops: Sequence[str | Path],
        reference: Float64Reference | None,
        first: Callable[[Feeds], Answers],
        whole: Collection[str],
    ) -> None:
        self._mini, self._bodies, self._custom_ops = mini, bodies, custom_ops
        self._reference, self._first, self._whole = reference, first, whole
        self._shaken: Float64Reference | None = None
        self._is_open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shaken is not None:
            self._shaken.__exit__(None, None, None)
        self._shaken = None

    def judge(
        self, ask: Callable[[Sensitivity], TensorError], name: str, answer: np.ndarray, dtype: np.dtype, feeds: Feeds
    ) -> TensorError:
        """Judge one output, by more and more directions in which it is moved, until it passes or all were tried.

        One that passes as the original errs as much is not in doubt where rounding carries both so far.  One that
        passes, and is merely small beside what kernels err by, is given few: a jump says no more of that.

        ask: the verdict, given what the output moves by.  The others are as in `of`.
        """
        farthest = Sensitivity.uniform(0.0)
        error = ask(farthest)
        for turn in range(MAX_DIRECTIONS):
            if error.ok and not error.original_error and not error.is_hidden:
                break
            is_blurred = error.ok and not error.original_error
            is_near = not error.ok and error.severity <= _NEAR
            if turn >= DIRECTIONS and (is_blurred or not (is_near or np.any(farthest.jumps))):
                break
            moved = self.sensitivity(name, answer, dtype, feeds=feeds, turn=turn)
            if moved is None:
                break
            farthest = farthest.maximum(moved)
            error = ask(farthest)
        return error

    def sensitivity(
        self, name: str, answer: np.ndarray, dtype: np.dtype, feeds: Feeds, turn: int
    ) -> Sensitivity | None:
        """What one output moves by in one of the directions; None where nothing tells.

        answer: what the reference, or without one the original, makes of the inputs.  dtype: the output's own.
        """
        if self._reference is None:
            return self._by_the_original(name, answer, dtype, feeds=feeds, turn=turn)
        unit = _UNITS_OF_DOUBLES if any(array.dtype == np.float64 for array in feeds.values()) else 1.0
        moved = [perturb_by_units(feeds, self._whole, turn, by) for by in (unit, STEP_FRACTION * unit)]
        by_inputs = self._pair(self._reference, name, moved)
        reference = self._shaking()
        amounts = [
            {AMPLITUDE_INPUT: np.asarray(by), SEED_INPUT: np.asarray(turn)} for by in (unit, STEP_FRACTION * unit)
        ]
        by_rounding = self._pair(reference, name, [{**feeds, **by} for by in amounts]) if reference is not None else []
        if not by_inputs and not by_rounding:
            return None
        return classify_sensitivity(answer, dtype, by_inputs, by_rounding=by_rounding, unit=unit)

    def _pair(self, reference: Float64Reference, name: str, feeds: Sequence[Feeds]) -> list[Pair]:
        """The answers to a move and to a part of it; none where one of the runs is refused."""
        try:
            full, part = (reference.run(moved)[name] for moved in feeds)
        except SessionError:
            return []
        return [(full, part)]

    def _shaking(self) -> Float64Reference | None:
        """The reference with what is rounded on the way shaken, opened when it is first asked for."""
        if not self._is_open:
            self._is_open = True
            try:
                self._shaken = Float64Reference(
                    self._mini, self._bodies, custom_ops=self._custom_ops, change=perturb_rounding
                )
            except SessionError:  # nothing in it rounds, or nothing runs it so: the inputs alone are moved
                self._shaken = None
        return self._shaken

    def _by_the_original(
        self, name: str, answer: np.ndarray, dtype: np.dtype, feeds: Feeds, turn: int
    ) -> Sensitivity | None:
        """The same where nothing computes in float64: no part of a unit is there to tell smooth moves from jumps."""
        try:
            moved = self._first(perturb_by_ulp(feeds, self._whole, turn))[name]
        except SessionError:
            return None
        if moved.shape != answer.shape or dtype.kind != "f":
            return Sensitivity.uniform(0.0)
        with np.errstate(all="ignore"):
            steps = np.abs(moved - answer) / spacing(np.abs(answer).max(initial=0.0, where=np.isfinite(answer)), dtype)
            near = np.where(steps <= _MOST_STEPS, moved, answer)
            return classify_sensitivity(answer, dtype, [(near, answer + STEP_FRACTION * (near - answer))], [])
