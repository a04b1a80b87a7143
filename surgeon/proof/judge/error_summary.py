"""The errors of each output over the runs of a proof, and whether the runs were informative."""

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

MAX_LIMIT = 0.01
"""The limit of a float32 output, as a part of its largest number, up to which a proof needs no note.

Whole models lose around 1 % in half precision: a larger error is one that users of a float32 model notice.
"""


class ErrorSummary:
    """The errors of all outputs over several runs.

    worst: the error of each output that is nearest to its limit, or furthest beyond it.  empty: outputs that have no
    elements at any sizes, and count as informative nevertheless.
    """

    def __init__(self, empty: Collection[str]) -> None:
        self.worst: dict[str, TensorError] = {}
        self._empty = empty
        self._informative, self._unblurred = set[str](), set[str]()
        self._tightest: dict[str, TensorError] = {}  # errors of usual inputs with the smallest limit
        self._doubted = ""  # why the original itself is wrong
        self._noisy: dict[str, TensorError] = {}  # errors of outputs that are lost in rounding
        self._blurred: dict[str, TensorError] = {}  # errors of usual inputs that are below the error of kernels

    @property
    def is_informative(self) -> bool:
        """Whether some output was informative in some run."""
        return bool(self._informative)

    def add(self, found: TensorError, answer: np.ndarray, against: str, *, is_usual: bool) -> None:
        """Keep an error if it is the worst of its output and informative; note outputs that are lost in rounding.

        answer: the original's output.  against: the name of the reference.  is_usual: whether the inputs are usual
        ones.
        """
        name = found.name
        if found.original_error:
            self._doubted = self._doubted or original_wrong_reason(found, against)
        if is_usual and found.is_hidden:
            self._blurred.setdefault(name, found)
        elif is_usual and not found.may_hide and found.scale:
            self._unblurred.add(name)
        if is_usual and found.ok and found.dtype == "float32" and answer.size:
            self._tightest[name] = min(found, self._tightest.get(name, found), key=lambda one: one.limit_over_scale)
        if not found.is_informative and found.ok:
            self._noisy.setdefault(name, found)
            return
        self._keep_worst(found)
        if not all_nan(answer) if answer.size else name in self._empty:
            self._informative.add(name)

    def merge(self, other: "ErrorSummary") -> None:
        """Keep the worst errors of both."""
        for found in other.worst.values():
            self._keep_worst(found)

    def _keep_worst(self, found: TensorError) -> None:
        known = self.worst.get(found.name)
        if known is None or found.severity >= known.severity:
            self.worst[found.name] = found

    def unproved_reason(self) -> str | None:
        """Why agreement proves nothing; None if it does."""
        blurred = [error for name, error in self._blurred.items() if name not in self._unblurred]
        lost = [error for name, error in self._noisy.items() if name not in self._informative]
        reasons = chain(map(hidden_by_kernel_error_reason, blurred), map(lost_to_rounding_reason, lost))
        return self._doubted or next(reasons, None) or self.loose_limit_note(1.0)  # zeros in its place would pass

    def loose_limit_note(self, most: float = MAX_LIMIT) -> str:
        """A note on a float32 output whose limit on usual inputs is never below a part of it; empty for none."""
        loose = max(self._tightest.values(), key=lambda one: one.limit_over_scale, default=None)
        if loose is None or loose.limit_over_scale <= most:
            return ""
        percent = 100 * loose.limit_over_scale
        part = f"{percent:,.0f}" if percent >= 10 else f"{percent:.2g}"  # 290, not 2.9e+02
        return f"{loose.name!r} may be off by {part} % of its largest value on all inputs, because {loose.because}"
