"""Runs of a replacement under the runtime of its target, or under other engines if that refuses it."""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Self

import ml_dtypes
import numpy as np
from onnx import ModelProto

from surgeon.proof.proof_case import ProofCase, RegionModels
from surgeon.runtime.numerics.allowances import JudgeSettings
from surgeon.runtime.numerics.array_comparison import TOLERANCES, dtype_name
from surgeon.runtime.numerics.close_results import judge_close
from surgeon.runtime.sessions.model_session import ModelSession
from surgeon.runtime.sessions.oracle import Oracle
from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.target_registry import TargetRuntime

Feeds = Mapping[str, np.ndarray]
_INT32 = np.iinfo(np.int32)


def open_replacement(case: ProofCase, sides: RegionModels, elsewhere: Callable[[], Oracle]) -> Oracle:
    """The runtime of the replacement: the target's, if it is installed and accepts the model, else an oracle.

    sides: of the case, maybe without their common nodes.  elsewhere: opens the oracle.

    Raises SessionError if nothing takes the model.
    """
    runtime = case.options.runtime
    if runtime is None:
        return elsewhere()
    typed = replace(sides, before=_typed(sides.before, case), after=_typed(sides.after, case))
    return TargetReplacement(typed, runtime, elsewhere, seconds=case.options.proof_time)


def _typed(model: ModelProto, case: ProofCase) -> ModelProto:
    """The model with the known dtypes of its outputs: ONNX Runtime infers them, and other parsers want them stated."""
    made = ModelProto()
    made.CopyFrom(model)
    for port in made.graph.output:
        if port.name in case.output_dtypes:
            port.type.tensor_type.elem_type = case.output_dtypes[port.name]
    return made


class TargetReplacement:
    """A replacement under the target's runtime, which may refuse it at some sizes or at all; an oracle runs it then.

    seconds: by the clock, which the runtime may take for all sets of inputs.  After that an oracle runs the others, if
    there is one: engines are built for each set of sizes.
    """

    def __init__(
        self, sides: RegionModels, runtime: TargetRuntime, elsewhere: Callable[[], Oracle], *, seconds: float
    ) -> None:
        self.name, self.is_independent = runtime.title, True
        self._sides, self._runtime = sides, runtime
        self._stack, self._left, self._runs = ExitStack(), seconds, 0
        self._fallback = _Fallback(elsewhere, self._stack)
        self._session: ModelSession | None = None  # None if the runtime refuses the replacement
        self._original: ModelSession | None = None  # the original nodes, once they are wanted
        try:
            self._session = self._stack.enter_context(runtime.open(sides.after))
        except SessionError as refused:
            self._name_both(self._fallback.first(refused.message))
        opened = self._session or self._fallback.oracle
        assert opened is not None
        self.inputs, self.outputs = opened.inputs, opened.outputs

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def refusal(self) -> str:
        """Why the runtime did not run all sets of inputs, as a clause; empty if it did."""
        return self._fallback.why

    def run(self, feeds: Feeds) -> dict[str, np.ndarray]:
        """Run once, on the target if it takes these inputs.  Raises SessionError if nothing does."""
        if self._session is None or self._left <= 0:
            oracle = self._other(f"the time for {self._runtime.title} ran out")
            if oracle is not None:
                return oracle.run(feeds)
        assert self._session is not None  # or there is an oracle
        started = time.monotonic()
        try:
            found: dict[str, np.ndarray] = self._session.run(feeds)
        except SessionError as refused:
            oracle = self._other(refused.message)
            if oracle is None:
                raise
            return oracle.run(feeds)
        finally:
            self._left -= time.monotonic() - started
        self._runs += 1
        return found

    def run_original(self, feeds: Feeds) -> Feeds:
        """The target's results of the original nodes; empty if it refuses them."""
        try:
            if self._original is None:
                self._original = self._stack.enter_context(self._runtime.open(self._sides.before))
            return self._original.run({name: feeds[name] for name in self._original.inputs})
        except SessionError:
            return {}

    def _other(self, why: str) -> Oracle | None:
        """The oracle in place of the target; None if none takes the model."""
        oracle = self._fallback.later(why)
        if oracle is not None:
            self._name_both(oracle)
        return oracle

    def _name_both(self, oracle: Oracle) -> None:
        """Note that an oracle ran the replacement too, or the oracle only."""
        self.name = f"{self._runtime.title}, and {oracle.name}" if self._runs else oracle.name
        self.is_independent = bool(self._runs) or oracle.is_independent


class _Fallback:
    """The oracle in place of a runtime, opened at the first refusal."""

    def __init__(self, elsewhere: Callable[[], Oracle], stack: ExitStack) -> None:
        self._elsewhere, self._stack = elsewhere, stack
        self.oracle: Oracle | None = None
        self.why, self._is_missing = "", False

    def first(self, why: str) -> Oracle:
        """The oracle.  Raises SessionError if none takes the model."""
        self.oracle = self._stack.enter_context(self._elsewhere())
        self.why = why.rstrip(".")
        return self.oracle

    def later(self, why: str) -> Oracle | None:
        """The oracle; None if none takes the model."""
        try:
            return self.oracle or (None if self._is_missing else self.first(why))
        except SessionError:
            self._is_missing = True
            return None


class TargetArithmetic:
    """How a target's runtime computes: its rounding, and its results for numbers that kernels treat differently.

    Without a runtime of the target, both sides run under the same kernels.
    """

    def __init__(self, second: Oracle, runtime: TargetRuntime | None) -> None:
        self._second = second if isinstance(second, TargetReplacement) else None
        self.is_other, self.precision = self._second is not None, runtime.precision if runtime is not None else ""

    def explains(self, name: str, rewritten: np.ndarray, feeds: Feeds, asked: JudgeSettings) -> bool:
        """Whether the target gives the same for the original nodes, from inputs that kernels may treat differently.

        Runtimes differ in NaN, infinity, denormals and overflow, and in integers beyond int32, which some of them store
        in 32 bits.  A rewrite is not at fault for that.
        """
        if self._second is None or not any(map(_is_special, feeds.values())):
            return False
        original = self._second.run_original(feeds).get(name)
        return original is not None and judge_close(name, original, rewritten, asked) is not None


def _is_special(array: np.ndarray) -> bool:
    """Whether floats are not finite, denormal, or so large that their squares overflow, or integers exceed int32."""
    if array.dtype.kind in "iu":
        return bool(np.any((array > _INT32.max) | (array < _INT32.min)))
    if dtype_name(array) not in TOLERANCES:
        return False
    limits, size = ml_dtypes.finfo(array.dtype), np.abs(array)
    odd = ~np.isfinite(size) | (size > float(limits.max) ** 0.5) | ((size > 0) & (size < float(limits.tiny)))
    return bool(np.any(odd))
