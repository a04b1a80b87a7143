"""What the runs of a proof showed of each output: how far it was off, and whether that could have told anything."""

from collections.abc import Collection
from itertools import chain

import numpy as np

from surgeon.proof.judge.exemptions import all_nan
from surgeon.runtime.numerics.tensor_error import (
    TensorError,
    hidden_by_kernel_error_reason,
    lost_to_rounding_reason,
    original_wrong_reason,
)


class ErrorSummary:
    """The errors of all outputs over several runs.

    worst: of each output the error nearest to what is allowed, or furthest beyond it.  empty: the outputs that have no
    elements at any sizes, and tell something nevertheless.
    """

    def __init__(self, empty: Collection[str]) -> None:
        self.worst: dict[str, TensorError] = {}
        self._empty = empty
        self._telling, self._clear = set[str](), set[str]()
        self._doubted = ""  # by a kernel that errs where the original runs
        self._noisy: dict[str, TensorError] = {}  # of which rounding left nothing to be judged
        self._blurred: dict[str, TensorError] = {}  # usual values that kernels may err by more than by

    @property
    def tells(self) -> bool:
        """Whether some output told something in some run."""
        return bool(self._telling)

    def add(self, found: TensorError, answer: np.ndarray, against: str, *, is_usual: bool) -> None:
        """Keep an error that is the worst of its output, and whether it tells something: what rounding blurs, neither.

        answer: what the original made.  against: what the error is measured from.  is_usual: of usual inputs.
        """
        name = found.name
        if found.original_error:
            self._doubted = self._doubted or original_wrong_reason(found, against)
        if is_usual and found.is_hidden:
            self._blurred.setdefault(name, found)
        elif is_usual and not found.may_hide and found.scale:
            self._clear.add(name)
        if not found.is_informative and found.ok:
            self._noisy.setdefault(name, found)
            return
        self._keep_worst(found)
        if not all_nan(answer) if answer.size else name in self._empty:
            self._telling.add(name)

    def merge(self, other: "ErrorSummary") -> None:
        """Keep what was worst in either."""
        for found in other.worst.values():
            self._keep_worst(found)

    def _keep_worst(self, found: TensorError) -> None:
        known = self.worst.get(found.name)
        if known is None or found.severity >= known.severity:
            self.worst[found.name] = found

    def unproved_reason(self) -> str:
        """Why nothing is proved though all agree; empty where something is."""
        blurred = [error for name, error in self._blurred.items() if name not in self._clear]
        lost = [error for name, error in self._noisy.items() if name not in self._telling]
        return self._doubted or next(
            chain(map(hidden_by_kernel_error_reason, blurred), map(lost_to_rounding_reason, lost)), ""
        )
