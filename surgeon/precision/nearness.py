"""How far two answers lie apart: of floats as a part of the largest number, of a Sigmoid's by what went into it."""

import ml_dtypes
import numpy as np
from onnx import GraphProto

from surgeon.file.recasting import limits
from surgeon.file.values import dtype_of
from surgeon.ops.dtypes_told import SQUASHING
from surgeon.ops.records import record
from surgeon.precision.choices import Retyping
from surgeon.precision.gauging import FAR

_LEAST_SCALE = 1e-6
_BITS = 6  # digits that a probability has to have left, so that what went into it can be told


class Nearness:
    """Answers of one model and of others for the same.

    A probability of 0.0005 tells of an input of -7.6, whose rounding to float16 alone moves it by a part of 0.002: held
    against the largest probability in a picture that shows nothing, roundings seem large.  The outputs that a Sigmoid
    makes are therefore judged as a model without it would be: by log(p / (1 - p)), within what the new dtype can tell
    from 0 and 1.
    """

    def __init__(self, graph: GraphProto, change: Retyping) -> None:
        self._change = change
        self._squashed = _squashed(graph) if change.narrows else frozenset()
        self._low = limits(change.new)[0] if change.narrows else -FAR

    def apart(self, name: str, array: np.ndarray, other: np.ndarray | None) -> float:
        """How far two values of an output lie apart; of others than floats how many differ."""
        if other is None or other.shape != array.shape:
            return FAR
        if array.dtype.kind not in "f" and array.dtype.name not in ("bfloat16",):
            return float(np.mean(array != other)) if array.size and array.dtype.kind in "biu" else 0.0
        one, two = (np.asarray(side, np.float64) for side in (array, other))
        if name in self._squashed:
            one, two = self._before(one), self._before(two)
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
        return float(gap.max(initial=0.0)) / max(scale, _LEAST_SCALE)

    def _before(self, values: np.ndarray) -> np.ndarray:
        """What a Sigmoid was given, by what it made."""
        dtype = ml_dtypes.finfo(dtype_of(self._change.new))
        least, most = float(dtype.smallest_subnormal) * 2**_BITS, 1.0 - float(dtype.eps)
        held = np.clip(values, least, most)
        made: np.ndarray = np.log(held / (1.0 - held))
        return made


def _squashed(graph: GraphProto) -> frozenset[str]:
    """The outputs that a Sigmoid makes, or nodes behind it that round nothing and have no other input of floats."""
    makers = {name: node for node in graph.node for name in node.output}
    found = set[str]()
    for value in graph.output:
        name = value.name
        while name in makers and makers[name].op_type not in SQUASHING and record(makers[name].op_type).moves == (0,):
            name = makers[name].input[0]
        if name in makers and makers[name].op_type in SQUASHING:
            found.add(value.name)
    return frozenset(found)
