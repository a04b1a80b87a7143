"""What proofs allow by declaration, whatever a computation is like: the survivors that differ by no more than this.

A rule says how far it changes numbers (`approximate`); kernels of some functions err by a part of one; and a number
that came in few bits may have been any other that rounds to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx

from surgeon.proof.judge.kernel_errors import absolute_error
from surgeon.runtime.numerics.allowances import ROUNDING_FACTOR
from surgeon.runtime.numerics.array_comparison import TOLERANCES

Arrays = Mapping[str, np.ndarray[Any, Any]]


class Tolerated:
    """What is declared of one replacement.  models: the original and the rule's own result; slack: `approximate`."""

    def __init__(self, *models: onnx.ModelProto, slack: float = 0.0) -> None:
        self._ops = {node.op_type for model in models for node in model.graph.node}
        self._slack = slack

    def of(self, feeds: Arrays, answer: np.ndarray[Any, Any]) -> Iterator[tuple[str, Any]]:
        """By how much each element of an output may differ, after what says so."""
        if answer.dtype.name not in TOLERANCES:
            return
        wide = np.abs(answer.astype(np.float64))
        if self._slack:
            scale = wide.max(initial=0.0, where=np.isfinite(wide))
            yield f"the {self._slack:g} that the rule says it may change numbers by", self._slack * (1 + scale)
        part = absolute_error(self._ops, answer.shape, feeds)
        if np.any(part):
            of_one = ROUNDING_FACTOR * TOLERANCES[answer.dtype.name][1] * part
            yield "the part of one by which kernels of such functions err, and which proofs allow", of_one
        given = [item.dtype for item in feeds.values() if item.dtype.name in TOLERANCES]
        coarse = max((dtype for dtype in given), key=lambda dtype: float(ml_dtypes.finfo(dtype).eps), default=None)
        if coarse is not None and coarse.itemsize < answer.dtype.itemsize:
            units = ROUNDING_FACTOR * float(ml_dtypes.finfo(coarse).eps) * wide
            yield f"{ROUNDING_FACTOR:g} units in the last place of the inputs, which are {coarse.name}", units
