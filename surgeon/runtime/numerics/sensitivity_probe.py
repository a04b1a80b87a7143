"""The sensitivity of the original of one region, measured only if it decides about a result."""

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
"""Directions to try: each is one sample of the effect of rounding, and a jump may need many until it appears."""
_NEAR = 4.0  # times the limit: for a number unlike all others, four samples may all be too small by this factor
# The larger move in a float64 model, in units in the last place, because there is no finer dtype.  The smaller move,
# 1/64 of it, is then 16 units.
_UNITS_OF_DOUBLES = 1024.0
# The largest smooth move without a reference, in units in the last place of the largest number; beyond it, a result
# jumps.  It is the square root of 4,096, the effect of rounding on a sum of as many terms.
_MAX_STEPS = 64.0


class SensitivityProbe:
    """Measures how far the original moves.  A context manager.

    mini: the original.  reference: returns its float64 reference, None without one; called at first use.  first: runs
    the original in its own dtypes.  whole: inputs whose integers are moved too, because they have no meaning.
    """

    def __init__(
        self,
        mini: onnx.ModelProto,
        bodies: Mapping[str, FunctionProto],
        custom_ops: Sequence[str | Path],
        reference: Callable[[], Float64Reference | None],
        first: Callable[[Feeds], Answers],
        whole: Collection[str],
    ) -> None:
        self._mini, self._bodies, self._custom_ops = mini, bodies, custom_ops
        self._reference, self._first, self._whole = reference, first, whole
        self._perturbed: Float64Reference | None = None
        self._is_open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._perturbed is not None:
            self._perturbed.__exit__(None, None, None)
        self._perturbed = None

    def judge(
        self, ask: Callable[[Sensitivity], TensorError], name: str, answer: np.ndarray, dtype: np.dtype, feeds: Feeds
    ) -> TensorError:
        """Judge one output with more and more directions of moves, until it passes or all were tried.

        An output that passes only because the original is off as much is not in doubt if rounding explains both.  An
        output that passes only because of the error of kernels gets few directions, because jumps add no information.

        ask: judges the output, given its sensitivity.  The other parameters are those of `sensitivity`.
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
        """The sensitivity of one output in one direction; None if it cannot be measured.

        answer: the result of the reference, or of the original without a reference.  dtype: the output's dtype.
        """
        exact = self._reference()
        if exact is None:
            return self._by_the_original(name, answer, dtype, feeds=feeds, turn=turn)
        unit = _UNITS_OF_DOUBLES if any(array.dtype == np.float64 for array in feeds.values()) else 1.0
        moved = [perturb_by_units(feeds, self._whole, turn, by) for by in (unit, STEP_FRACTION * unit)]
        by_inputs = self._pair(exact, name, moved)
        perturbed = self._perturbed_reference()
        amounts = [
            {AMPLITUDE_INPUT: np.asarray(by), SEED_INPUT: np.asarray(turn)} for by in (unit, STEP_FRACTION * unit)
        ]
        by_rounding = self._pair(perturbed, name, [{**feeds, **by} for by in amounts]) if perturbed is not None else []
        if not by_inputs and not by_rounding:
            return None
        return classify_sensitivity(answer, dtype, by_inputs, by_rounding=by_rounding, unit=unit)

    def _pair(self, reference: Float64Reference, name: str, feeds: Sequence[Feeds]) -> list[Pair]:
        """The results of a move and of a part of it; empty if one of the runs fails."""
        try:
            full, part = (reference.run(moved)[name] for moved in feeds)
        except SessionError:
            return []
        return [(full, part)]

    def _perturbed_reference(self) -> Float64Reference | None:
        """The reference with rounded intermediate numbers moved, opened at first use."""
        if not self._is_open:
            self._is_open = True
            try:
                self._perturbed = Float64Reference(
                    self._mini, self._bodies, custom_ops=self._custom_ops, change=perturb_rounding
                )
            except SessionError:  # no node rounds, or no runtime runs it: only the inputs are moved
                self._perturbed = None
        return self._perturbed

    def _by_the_original(
        self, name: str, answer: np.ndarray, dtype: np.dtype, feeds: Feeds, turn: int
    ) -> Sensitivity | None:
        """The sensitivity without float64, in which no part of a unit separates smooth moves from jumps."""
        try:
            moved = self._first(perturb_by_ulp(feeds, self._whole, turn))[name]
        except SessionError:
            return None
        if moved.shape != answer.shape or dtype.kind != "f":
            return Sensitivity.uniform(0.0)
        with np.errstate(all="ignore"):
            steps = np.abs(moved - answer) / spacing(np.abs(answer).max(initial=0.0, where=np.isfinite(answer)), dtype)
            near = np.where(steps <= _MAX_STEPS, moved, answer)
            return classify_sensitivity(answer, dtype, [(near, answer + STEP_FRACTION * (near - answer))], [])
