"""The error of an output: of floats relative to the largest magnitude, of a Sigmoid's by its input."""

from collections.abc import Iterator

import ml_dtypes
import numpy as np
from onnx import GraphProto

from surgeon.file.tensors.casting import finite_limits
from surgeon.file.tensors.decoding import dtype_of
from surgeon.ops.traits.dtype_traits import SIGMOIDS
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.precision.measuring.range_instrumentation import INFINITY
from surgeon.precision.planning.node_dtypes import DtypeChange
from surgeon.runtime.numerics.array_comparison import TOLERANCES, blocks, max_magnitude, scale_per_slice

BLOCK = 1 << 18  # elements of a part: 2 MB of float64, so that memory is used again and not requested each time
_MIN_SCALE = 1e-6
_MIN_PART_SCALE = 0.1  # least scale of a row or column of probabilities: smaller ones are noise
_NEARLY = 0.99  # of the lowest number: a fill of just that has scores added to it
_BITS = 6  # bits that a probability must have left to determine the Sigmoid's input


class OutputDeviation:
    """Compares outputs of one model with those of others.

    A probability of 0.0005 belongs to an input of -7.6, whose rounding to float16 changes it by 0.2 %: relative to the
    largest probability of an image without objects, rounding errors seem large.  So outputs of a Sigmoid are compared
    before the Sigmoid: by log(p / (1 - p)), within the range in which the new dtype separates p from 0 and 1.  If an
    output joins tensors of several kinds, such as pixels and scores of a detector, a number is compared relative to its
    row and its column, as in comparisons of models.
    """

    def __init__(self, graph: GraphProto, change: DtypeChange) -> None:
        self._change = change
        self._squashed = _squashed(graph) if change.narrows else frozenset()
        self._joined = frozenset(_joined(graph)) if change.narrows else frozenset()
        self._low = finite_limits(change.new)[0] if change.narrows else -INFINITY

    def error(self, name: str, array: np.ndarray, other: np.ndarray | None) -> float:
        """The relative error of an output; for others than floats, the fraction of changed elements."""
        if other is None or other.shape != array.shape:
            return INFINITY
        if is_discrete(array):
            return float(np.mean(array != other)) if array.size else 0.0
        if name in self._joined:
            gap, held = self._gap(name, array, other)
            scale = max(float(held.max(initial=0.0)), _MIN_SCALE)
            return float((gap / np.maximum(scale_per_slice(held), min(scale, _MIN_PART_SCALE))).max(initial=0.0))
        found = [self._gap(name, *sides) for sides in zip(blocks(array, BLOCK), blocks(other, BLOCK), strict=True)]
        gap, held = (np.array([part.max(initial=0.0) for part in parts]) for parts in zip(*found, strict=True))
        return float(gap.max() / max(held.max(), _MIN_SCALE))

    def _gap(self, name: str, array: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The distances of two outputs, and the magnitudes that they are relative to."""
        one, two = (np.asarray(side, np.float64) for side in (array, other))
        if name in self._squashed:
            one, two = self._before(one), self._before(two)
        usual = ~np.isnan(one)
        sentinels = self._sentinels(one)
        with np.errstate(invalid="ignore"):  # equal infinities have no distance
            gap = np.where(usual & (one != two) & ~(sentinels & (two <= self._low / 4)), np.abs(one - two), 0.0)
            held = np.where(np.isfinite(one) & ~sentinels, np.abs(one), 0.0)
        return np.where(np.isnan(two) & usual, INFINITY, gap), held

    def tolerance(self, name: str, array: np.ndarray, most: float) -> float:
        """The absolute tolerance of an output, for a relative one of `most`; 0 if any difference counts."""
        is_exact = array.dtype.name not in TOLERANCES or name in self._squashed  # a Sigmoid's input always varies
        return 0.0 if is_exact else most * max_magnitude(array)

    def _sentinels(self, values: np.ndarray) -> np.ndarray:
        """Elements of an original that hide a score: they become half the new dtype's lowest number when converted.

        Large positive numbers are data.
        """
        made: np.ndarray = values <= self._low * _NEARLY if self._change.narrows else np.zeros(values.shape, np.bool_)
        return made

    def _before(self, values: np.ndarray) -> np.ndarray:
        """The input of a Sigmoid, from its output."""
        dtype = ml_dtypes.finfo(dtype_of(self._change.new))
        least, most = float(dtype.smallest_subnormal) * 2**_BITS, 1.0 - float(dtype.eps)
        held = np.clip(values, least, most)
        made: np.ndarray = np.log(held / (1.0 - held))
        return made


def is_discrete(array: np.ndarray) -> bool:
    """Whether an output is judged by the fraction of changed elements: integers, booleans and strings."""
    return array.dtype.kind != "f" and array.dtype.name != "bfloat16"


def _squashed(graph: GraphProto) -> frozenset[str]:
    """The outputs of a Sigmoid, or of nodes after it that do not round and have no other float input."""
    makers = {name: node for node in graph.node for name in node.output}
    found = set[str]()
    for value in graph.output:
        name = value.name
        while (
            name in makers
            and makers[name].op_type not in SIGMOIDS
            and traits_of(makers[name].op_type).data.copies_elements == (0,)
        ):
            name = makers[name].input[0]
        if name in makers and makers[name].op_type in SIGMOIDS:
            found.add(value.name)
    return frozenset(found)


def _joined(graph: GraphProto) -> Iterator[str]:
    """The outputs that join several tensors, perhaps followed by moves or constant factors."""
    makers = {name: node for node in graph.node for name in node.output}
    stored = {tensor.name for tensor in graph.initializer}
    stored.update(name for node in graph.node if not node.input for name in node.output)
    for value in graph.output:
        waiting, seen = [value.name], set[str]()
        while waiting:
            name = waiting.pop()
            node = makers.get(name)
            if node is None or name in seen:
                continue
            seen.add(name)
            facts = traits_of(node.op_type)
            moved = dict.fromkeys(
                text
                for place, text in enumerate(node.input)
                if text and place in facts.data.carried and text not in stored
            )
            if len(moved) > 1 and not facts.control.selectors:
                yield value.name
                break
            is_scaled = facts.algebra.family or facts.dtype.is_cast
            scaled = [text for text in node.input if text not in stored] if is_scaled else []
            waiting += moved or (scaled if len(scaled) == 1 else [])
