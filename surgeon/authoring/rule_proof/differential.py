"""Two models run on the same inputs, and the outputs of the one held against those of the other."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import numpy as np
import onnx

from surgeon.authoring.rule_proof.result import InstanceOutcome, InstanceResult
from surgeon.runtime.inputs.input_generator import ValueKind
from surgeon.runtime.inputs.input_spec import OVERFLOWING
from surgeon.runtime.numerics.sensitivity_probe import SensitivityProbe
from surgeon.runtime.numerics.tensor_judge import TensorError, judge_tensor, worst_error
from surgeon.runtime.sessions.float64_reference import Float64Reference
from surgeon.runtime.sessions.oracle import Oracle, open_evaluator, open_oracle
from surgeon.runtime.sessions.ort_session import SessionError

Feeds = dict[str, np.ndarray]


def compare_outputs(
    model: onnx.ModelProto,
    rewritten: onnx.ModelProto,
    inputs: Iterable[tuple[ValueKind, Feeds]],
    custom_ops: Sequence[str | Path] = (),
    slack: float = 0.0,
    *,
    by_definition: bool = False,
) -> InstanceResult:
    """What running both models on some inputs shows; each set of them comes with what kind of values it has.

    custom_ops: libraries and Python files that implement ops.  slack: how far the rule may change outputs on purpose,
    absolutely and as a part of the scale.  by_definition: onnx's ReferenceEvaluator runs the second model.  Inputs that
    the model refuses are left out.
    """
    with ExitStack() as stack:
        try:
            first = stack.enter_context(open_oracle(model, custom_ops))
        except SessionError as error:
            reason = f"nothing runs the pattern here: {_line(error)}"
            return InstanceResult(InstanceOutcome.UNPROVED, reason, is_instance=error.is_unsupported)
        try:
            oracle = open_evaluator(rewritten) if by_definition else open_oracle(rewritten, custom_ops)
            second = stack.enter_context(oracle)
        except SessionError as error:
            return _refused(error)
        sides = _Sides(model, first, second, custom_ops=custom_ops, slack=slack)
        stack.callback(sides.close)
        return sides.run(inputs)


class _Sides:
    """Both models as they run, and the first in float64 where that is asked for."""

    def __init__(
        self,
        model: onnx.ModelProto,
        first: Oracle,
        second: Oracle,
        custom_ops: Sequence[str | Path],
        slack: float,
    ) -> None:
        self.model, self.first, self.second = model, first, second
        self.custom_ops, self.slack = custom_ops, slack
        self.reference: Float64Reference | None = None
        self.errors: list[TensorError] = []

    def run(self, inputs: Iterable[tuple[ValueKind, Feeds]]) -> InstanceResult:
        """Run all inputs, up to the first that shows a fault."""
        refusal: SessionError | None = None
        for values, feeds in inputs:
            try:
                before = self.first.run(feeds)
            except SessionError as refused:
                refusal = refusal or refused
                continue
            try:
                after = self.second.run(feeds)
            except SessionError as refused:
                return _refused(refused)
            for name, answer in before.items():
                error = self._judge(name, answer, after[name], feeds=feeds, values=values)
                self.errors.append(error)
                if not error.ok:
                    return InstanceResult(InstanceOutcome.FAILED, f"'{name}' {error.why}", error)
        if self.errors:
            return InstanceResult(InstanceOutcome.PROVED, error=worst_error(self.errors))
        told = "there are none" if refusal is None else _line(refusal)
        is_instance = refusal is None or refusal.is_unsupported
        return InstanceResult(
            InstanceOutcome.UNPROVED, f"the pattern runs on no inputs: {told}", is_instance=is_instance
        )

    def close(self) -> None:
        """End what runs the first in float64."""
        if self.reference is not None:
            self.reference.__exit__(None, None, None)

    def _judge(
        self, name: str, original: np.ndarray, rewritten: np.ndarray, feeds: Feeds, values: ValueKind
    ) -> TensorError:
        """Judge one output by the original; only where it leaves tolerance, by what both should be in float64."""
        settled = partial(judge_tensor, name, original, rewritten, slack=self.slack, overflowing=values in OVERFLOWING)
        error = settled(None, 0.0)
        if error.ok:
            return error
        exact: np.ndarray | None = None
        with suppress(SessionError):  # then the original serves as its own reference
            exact = self._exact(feeds)[name]
        reference = self.reference if exact is not None else None
        answer = original if exact is None else exact
        with SensitivityProbe(
            self.model, {}, self.custom_ops, reference=reference, first=self.first.run, whole=()
        ) as moves:
            return moves.judge(partial(settled, exact), name, answer, dtype=original.dtype, feeds=feeds)

    def _exact(self, feeds: Feeds) -> Feeds:
        if self.reference is None:
            self.reference = Float64Reference(self.model, custom_ops=self.custom_ops)
        return self.reference.run(feeds)


def _refused(error: SessionError) -> InstanceResult:
    """The finding where the replacement does not load or run."""
    standing = InstanceOutcome.UNPROVED if error.is_unsupported else InstanceOutcome.FAILED
    return InstanceResult(standing, f"the replacement does not run: {_line(error)}")


def _line(error: SessionError) -> str:
    return error.message.rstrip(".")
