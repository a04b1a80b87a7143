"""One original on sets of inputs: what its inner tensors hold there, and how far another model's answers lie apart."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto

from surgeon.errors import ModelFileError
from surgeon.file.recasting import limits
from surgeon.file.save import Written
from surgeon.file.values import Array, dtype_of
from surgeon.inputs.inputs import InputPlan, InputsUnknown, Values
from surgeon.inputs.user_inputs import read_inputs
from surgeon.models.exposing import exposing, fetch
from surgeon.models.model_check import require_options
from surgeon.models.options import CheckOptions
from surgeon.models.trials import MUCH, Workload
from surgeon.precision.choices import Retyping
from surgeon.running.away import Away
from surgeon.running.runtime import SessionError

Arrays = dict[str, np.ndarray]
_SIZES = 2  # sets of sizes that inputs are made of, before the long one
_LONG = 8  # times the usual size
FAR = float("inf")


@dataclass(slots=True)
class Magnitudes:
    """What a tensor held in all runs.

    most: the largest magnitude.  above: the same without what lies far below zero, as fills of masks do.  least: the
    smallest magnitude but zero.  mean, square: of magnitudes, and of their squares, at most.  shape: in the largest.
    """

    most: float = 0.0
    above: float = 0.0
    least: float = FAR
    mean: float = 0.0
    square: float = 0.0
    shape: tuple[int, ...] = ()

    def add(self, array: Array, low: float) -> None:
        """Take in what a run showed.  low: from where on down a number is a fill."""
        array = array[np.isfinite(array)] if not np.isfinite(array).all() else array
        if not array.size:
            return
        wide = np.abs(array.astype(np.float64, copy=False))
        self.most = max(self.most, float(wide.max()))
        others = wide[np.asarray(array, np.float64) > low]
        self.above = max(self.above, float(others.max(initial=0.0)))
        self.least = min(self.least, float(wide[wide > 0].min(initial=FAR)))
        self.mean = max(self.mean, float(wide.mean()))
        self.square = max(self.square, float((wide * wide).mean()))


class Trying:
    """The original, run once on each set of inputs.

    why: one sentence on why nothing can be run, else empty.  oracle: what ran the model that was tried last.
    """

    def __init__(
        self, original: Written, skeleton: ModelProto, change: Retyping, options: CheckOptions, *, io: str
    ) -> None:
        self._original, self._skeleton, self._change = original, skeleton, change
        self._converts = io == "convert"
        custom_ops = require_options(
            options.seed, options.dims, options.custom_ops, options.rtol, options.atol, options.inputs
        )
        self._away = Away(custom_ops, options.run_time)
        self._low = limits(change.new)[0] if change.narrows else -FAR
        self.wanted: list[tuple[Arrays, Arrays]] = []
        self.why = "" if skeleton.graph.output else "The model has no outputs to compare."
        self.oracle = ""
        self._sets: Sequence[Arrays] = ()
        self._options = options

    def run(self, names: Sequence[str]) -> dict[str, Magnitudes]:
        """Run the original; returns what these inner tensors held.  `why` tells where it cannot be run."""
        found: dict[str, Magnitudes] = {}
        if self.why:
            return found
        try:
            with ExitStack() as stack:
                shown = stack.enter_context(exposing(self._original, names)) if names else self._original
                session = stack.enter_context(self._away.open(shown))
                own = tuple(value.name for value in self._skeleton.graph.output)
                load = Workload(self._original)
                for feeds in self._made():
                    session.outputs = own
                    try:
                        outputs = session.run(feeds)
                    except SessionError as refused:
                        self.why = self.why or f"The original does not run on its inputs: {refused.line}"
                        continue
                    if _is_nothing(outputs) and not self._options.inputs:
                        continue
                    self.wanted.append((feeds, outputs))
                    for _, values in fetch(session, feeds, names):
                        for name, array in values.items():
                            self._note(found, name, array)
                    for name, array in feeds.items():
                        self._note(found, name, array)
                    if load.of(feeds) > MUCH:
                        break
        except InputsUnknown as unknown:
            self.why = f"Inputs cannot be made: {unknown.reason}."
        except (SessionError, ModelFileError) as refused:
            if names:  # what keeps inner tensors from being shown need not keep the model from running
                return self.run(())
            line = refused.line if isinstance(refused, SessionError) else str(refused)
            self.why = f"ONNX Runtime does not load the original: {line}"
        if self.wanted:
            self.why = ""
        return found

    def error(self, made: Written) -> float:
        """How far a model's outputs lie from the original's, as a part of their scale.  Raises SessionError."""
        worst = 0.0
        with self._away.open(made) as session:
            self.oracle = session.name
            for feeds, wanted in self.wanted:
                answer = session.run({name: self._fed(array) for name, array in feeds.items()})
                for name, array in wanted.items():
                    worst = max(worst, self._apart(array, answer.get(name)))
        return worst

    def _fed(self, array: np.ndarray) -> np.ndarray:
        if self._converts and array.dtype == dtype_of(self._change.old):
            with np.errstate(over="ignore"):
                return array.astype(dtype_of(self._change.new))
        return array

    def _note(self, found: dict[str, Magnitudes], name: str, array: np.ndarray) -> None:
        if array.dtype == dtype_of(self._change.old):
            noted = found.setdefault(name, Magnitudes())
            noted.add(array, self._low / 4)
            if np.prod(array.shape) >= np.prod(noted.shape or (0,)):
                noted.shape = array.shape

    def _made(self) -> Iterator[Arrays]:
        given = read_inputs(self._skeleton, self._options.inputs)
        if given:
            yield from (one.arrays for one in given)
            return
        plan, dims, seed = InputPlan(self._skeleton), self._options.dims, self._options.seed
        sizes = plan.size_sets(dims)
        for values in (Values.USUAL, Values.TAME):
            yield plan.make(seed, sizes[0], values)
            yield plan.make(seed + 1, sizes[0], values)
            for other in sizes[1 : 1 + _SIZES]:
                yield plan.make(seed, other, values)
            free = {name: size * _LONG for name, size in sizes[0].items() if name not in dims}
            if free and self.wanted:
                yield plan.make(seed, {**sizes[0], **free}, values)
            for other in plan.fallback_sets(dims):
                if self.wanted:
                    return
                yield plan.make(seed, other, values)
            if self.wanted:
                return

    def _apart(self, array: np.ndarray, other: np.ndarray | None) -> float:
        """How far two values of an output lie apart: of floats as a part of the largest, of others how many differ."""
        if other is None or other.shape != array.shape:
            return FAR
        if array.dtype.kind not in "f" and array.dtype.name not in ("bfloat16",):
            return float(np.mean(array != other)) if array.size and array.dtype.kind in "biu" else 0.0
        one, two = (np.asarray(side, np.float64) for side in (array, other))
        if self._change.narrows:  # what is beyond the new dtype is as far as one gets
            bound = -self._low / 4
            one, two = np.clip(one, -bound, bound), np.clip(two, -bound, bound)
            scale = float(np.abs(one[np.abs(one) < bound]).max(initial=0.0))
        else:
            scale = float(np.abs(one[np.isfinite(one)]).max(initial=0.0))
        usual = ~np.isnan(one)
        if np.isnan(two[usual]).any():
            return FAR
        with np.errstate(invalid="ignore"):
            gap = np.abs(one - two)[usual]
        gap = gap[~np.isnan(gap)]
        return float(gap.max(initial=0.0)) / max(scale, 1e-6)




def _is_nothing(outputs: Arrays) -> bool:
    """Whether a run answered nothing but NaN."""
    floats = [array for array in outputs.values() if array.dtype.kind == "f" and array.size]
    return bool(floats) and all(np.isnan(array).all() for array in floats)
