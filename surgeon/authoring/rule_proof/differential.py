"""Runs two models on the same inputs and compares their outputs."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import numpy as np
import onnx

from surgeon.authoring.rule_proof.result import InstanceOutcome, InstanceResult
from surgeon.runtime.inputs.fill import Fill
from surgeon.runtime.numerics.allowances import JudgeSettings
from surgeon.runtime.numerics.sensitivity_probe import SensitivityProbe
from surgeon.runtime.numerics.tensor_judge import TensorError, judge_tensor, worst_error
from surgeon.runtime.sessions.float64_reference import Float64Reference
from surgeon.runtime.sessions.oracle import Oracle, open_evaluator, open_oracle
from surgeon.runtime.sessions.ort_session import SessionError

Feeds = dict[str, np.ndarray]


def compare_outputs(
    model: onnx.ModelProto,
    rewritten: onnx.ModelProto,
    inputs: Iterable[tuple[Fill, Feeds]],
    custom_ops: Sequence[str | Path] = (),
    slack: float = 0.0,
    *,
    by_definition: bool = False,
) -> InstanceResult:
    """Compare the outputs of both models on inputs, each with its fill; skip inputs that the first model refuses.

    custom_ops: libraries and Python files that implement ops.  slack: the intended difference, absolute and relative to
    the scale of an output.  by_definition: run the second model with onnx's ReferenceEvaluator.
    """
    with ExitStack() as stack:
        try:
            first = stack.enter_context(open_oracle(model, custom_ops))
        except SessionError as error:
            reason = f"no runtime here runs the pattern: {_line(error)}"
            return InstanceResult(InstanceOutcome.UNPROVED, reason, is_instance=error.is_unsupported)
        try:
            oracle = open_evaluator(rewritten) if by_definition else open_oracle(rewritten, custom_ops)
            second = stack.enter_context(oracle)
        except SessionError as error:
            return _refused(error)
        pair = _ModelPair(model, first, second, custom_ops=custom_ops, slack=slack)
        stack.callback(pair.close)
        return pair.run(inputs)


class _ModelPair:
    """Sessions of both models, and of the first in float64 on demand."""

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

    def run(self, inputs: Iterable[tuple[Fill, Feeds]]) -> InstanceResult:
        """Compare on all inputs, up to the first wrong output."""
        refusal: SessionError | None = None
        for fill, feeds in inputs:
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
                error = self._judge(name, answer, after[name], feeds=feeds, fill=fill)
                self.errors.append(error)
                if not error.ok:
                    return InstanceResult(InstanceOutcome.FAILED, f"'{name}' {error.why}", error)
        if self.errors:
            return InstanceResult(InstanceOutcome.PROVED, error=worst_error(self.errors))
        reason = "none could be generated" if refusal is None else _line(refusal)
        is_instance = refusal is None or refusal.is_unsupported
        return InstanceResult(
            InstanceOutcome.UNPROVED, f"the pattern accepts no inputs: {reason}", is_instance=is_instance
        )

    def close(self) -> None:
        """Close the float64 session."""
        if self.reference is not None:
            self.reference.__exit__(None, None, None)

    def _judge(
        self, name: str, original: np.ndarray, rewritten: np.ndarray, feeds: Feeds, fill: Fill
    ) -> TensorError:
        """Compare an output with the original; if it is out of tolerance, compare both with the float64 result."""
        asked = JudgeSettings(original.dtype, intended_error=self.slack, overflowing=fill.may_overflow)
        settled = partial(judge_tensor, name, original, rewritten, asked=asked)
        error = settled(None, 0.0)
        if error.ok:
            return error
        exact: np.ndarray | None = None
        with suppress(SessionError):  # the original output is the reference then
            exact = self._exact(feeds)[name]
        reference = self.reference if exact is not None else None
        answer = original if exact is None else exact
        with SensitivityProbe(
            self.model, {}, self.custom_ops, reference=lambda: reference, first=self.first.run, whole=()
        ) as moves:
            return moves.judge(partial(settled, exact), name, answer, dtype=original.dtype, feeds=feeds)

    def _exact(self, feeds: Feeds) -> Feeds:
        if self.reference is None:
            self.reference = Float64Reference(self.model, custom_ops=self.custom_ops)
        return self.reference.run(feeds)


def _refused(error: SessionError) -> InstanceResult:
    """The result if the replacement does not load or run."""
    outcome = InstanceOutcome.UNPROVED if error.is_unsupported else InstanceOutcome.FAILED
    return InstanceResult(outcome, f"the replacement does not run: {_line(error)}")


def _line(error: SessionError) -> str:
    return error.message.rstrip(".")
