"""The judgement of one output of a run: the replacement against the original and its reference."""

from collections.abc import Callable, Mapping

import numpy as np
from onnx import FunctionProto, ModelProto

from surgeon.proof.cases.literal_injection import Feeds
from surgeon.proof.judge.common_nodes import have_common_nodes
from surgeon.proof.judge.exemptions import overflows, reach_fill
from surgeon.proof.judge.kernel_errors import absolute_error, begins_at_zero, has_absolute_error
from surgeon.proof.proof_case import ProofCase
from surgeon.proof.site.target_replacement import TargetArithmetic
from surgeon.runtime.numerics.allowances import JudgeSettings
from surgeon.runtime.numerics.close_results import judge_close
from surgeon.runtime.numerics.sensitivity import Sensitivity
from surgeon.runtime.numerics.sensitivity_probe import SensitivityProbe
from surgeon.runtime.numerics.tensor_judge import TensorError, judge_tensor
from surgeon.runtime.sessions.oracle import Oracle


class OutputJudge:
    """Judges the outputs of one case."""

    def __init__(
        self,
        case: ProofCase,
        oracle: Callable[[ModelProto, Mapping[str, FunctionProto]], Oracle],
        sensitivity: SensitivityProbe,
        arithmetic: TargetArithmetic,
    ) -> None:
        self._case, self._oracle, self._sensitivity, self._arithmetic = case, oracle, sensitivity, arithmetic
        self._ops = case.ops
        self._shared_error = have_common_nodes(case.models, has_absolute_error) and not arithmetic.is_other
        self._sign_sensitive = frozenset[str]() if begins_at_zero(self._ops) else case.sign_sensitive

    def judge(
        self,
        name: str,
        original: np.ndarray,
        rewritten: np.ndarray,
        *,
        reference: Callable[[], np.ndarray | None],
        feeds: Feeds,
        overflowing: bool,
        may_lose: bool,
        terms: int,
    ) -> TensorError | None:
        """The error of one output; None if the difference is exempt, see `surgeon.proof.judge.exemptions`.

        reference: gives the output of the reference, None without one; it is called only if the original does not
        decide.  overflowing: the inputs are finite but large.  may_lose: products of such inputs may overflow.  terms:
        of the longest sum, at the sizes of the run.  The sensitivity of the reference is measured only if it
        decides.
        """
        options = self._case.options
        asked = JudgeSettings(
            original.dtype,
            rtol=options.rtol,
            atol=options.atol,
            intended_error=self._case.slack,
            overflowing=overflowing,
            absolute_error=absolute_error(self._ops, original.shape, feeds),
            shared_error=self._shared_error,
            signed_zeros=name in self._sign_sensitive,
            terms=terms,
            precision=self._arithmetic.precision,
        )
        if (close := judge_close(name, original, rewritten, asked)) is not None:
            return close
        exact = reference()
        answer = original if exact is None else exact

        def judged(moved: Sensitivity) -> TensorError:
            return judge_tensor(name, original, rewritten, exact, moved, asked)

        if may_lose:
            found = judged(Sensitivity.uniform(0.0))
            if found.ok or overflows(self._case, feeds, self._oracle):
                return found if found.ok else None
        found = self._sensitivity.judge(judged, name, answer, dtype=original.dtype, feeds=feeds)
        if found.ok or not self._is_exempt(name, rewritten, feeds, asked):
            return found
        return None

    def _is_exempt(self, name: str, rewritten: np.ndarray, feeds: Feeds, asked: JudgeSettings) -> bool:
        """Whether a difference does not count."""
        by_target = self._arithmetic.explains(name, rewritten, feeds, asked)
        return by_target or reach_fill(self._case, feeds, self._oracle)
