"""Sentinels for minus infinity: fill values of masks, and bounds, that a narrower dtype cannot hold.

A mask adds -3.4e38, or puts -1e9, so that a softmax gives a position no weight.  In float16 both are infinite, and a
fully masked row becomes NaN.  Half the lowest number has the same effect, also where two masks add up.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from onnx import TensorProto

from surgeon.analysis.dataflow import Dataflow
from surgeon.analysis.integer_range import SMALL
from surgeon.errors import ModelFileError
from surgeon.file.tensors.casting import CastRange, cast_array, finite_limits, smallest
from surgeon.ir.edges import Tensor
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.ops.traits.dtype_traits import CLIP_BOUNDS
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.precision.analyses.dtype_graph import DtypeGraph, TensorKey, TensorUse, TypedTensor
from surgeon.precision.analyses.stored_tensors import held

_LOST = 1e-2  # relative change of a stored tensor by rounding that is accepted


class StoredMisfit(NamedTuple):
    """A stored tensor that the new dtype cannot hold."""

    reason: str
    """Why it keeps the old dtype."""
    clamped: str
    """The effect on its values if it is converted anyway."""


def range_misfit(name: str, seen: CastRange, new: int) -> StoredMisfit | None:
    """Why a large stored tensor does not fit the new dtype; None if it does."""
    (low, high), named = finite_limits(new), dtype_name(new)
    most = f"{seen.largest:,.6g}"
    if seen.most > high or seen.least < low:
        clamped = f"{name!r} saturates at {high:,.6g} (from {most})"
        return StoredMisfit(f"{name!r} reaches {most}; the largest {named} is {high:,.6g}", clamped)
    tiny = smallest(new)
    if 0 < seen.largest < tiny:
        reason = f"{name!r} reaches only {seen.largest:.3g}; {named} loses digits below {tiny:.3g}"
        return StoredMisfit(reason, f"{reason}, so it is rounded")
    return None


class _OnlyMasks(Dataflow[bool]):
    """Whether all that reads a tensor is a softmax or a bound, or passes it on to these only."""

    def __init__(self, dtype_graph: DtypeGraph) -> None:
        super().__init__(True)
        self._graph = dtype_graph

    def join(self, one: bool, other: bool) -> bool:
        return one and other

    def equation(self, tensor: Tensor, fact: Callable[[Tensor], bool]) -> bool:
        wire = self._graph.wire(tensor.scope, tensor.name)
        return wire is not None and bool(wire.uses) and all(self._is_masking(use, fact) for use in wire.uses)

    def _is_masking(self, use: TensorUse, fact: Callable[[Tensor], bool]) -> bool:
        if use.node is None:
            return False
        facts = traits_of(use.node.op)
        if facts.numerics.is_softmax or use.place in facts.operands.logits or use.place in facts.operands.masks:
            return True
        has_neutral = facts.shape.broadcasts and facts.algebra.neutral is not None
        passes = facts.algebra.family or use.place in facts.data.carried or has_neutral
        return bool(passes) and all(fact(Tensor(use.node.scope, name)) for name in use.node.outputs if name)


class MaskSentinels:
    """Small stored values beyond the new dtype: sentinels that only softmax or bounds see, and misfits.

    saturate: let all misfits saturate.  found: the bounds at which a stored tensor saturates.  misfits: stored tensors
    that must keep the old dtype, with the reason; small: the least number of those that lose their digits.  clamped: a
    sentence for each misfit that saturates.
    """

    def __init__(self, dtype_graph: DtypeGraph, *, saturate: bool) -> None:
        self._graph, self._saturate = dtype_graph, saturate
        self._low, self._high = finite_limits(dtype_graph.change.new)
        self._masks = _OnlyMasks(dtype_graph)
        self.found: dict[TensorKey, tuple[float, float]] = {}
        self.misfits: dict[TensorKey, str] = {}
        self.clamped: dict[TensorKey, str] = {}
        self.small: dict[TensorKey, float] = {}
        if not (dtype_graph.change.narrows or dtype_graph.change.is_integer):
            return
        for key, wire in dtype_graph.tensors.items():
            tensor = held(wire) if wire.uses else None
            if tensor is not None:
                self._look_at(key, wire, tensor)
            elif wire.uses and dtype_graph.change.narrows:
                self._look_at_computed(key, wire)

    def only_masks(self, wire: TypedTensor) -> bool:
        """Whether only softmaxes and bounds see the very low elements of a tensor."""
        return self._masks[Tensor(wire.home, wire.name)]

    def _look_at(self, key: TensorKey, wire: TypedTensor, tensor: TensorProto) -> None:
        if int(np.prod(tensor.dims)) > SMALL:
            return
        try:
            values = self._graph.draft.value(tensor)
        except ModelFileError:  # reported when it is written
            return
        finite = np.asarray(values[np.isfinite(values)], np.float64)
        if not finite.size:
            return
        if self._graph.change.is_integer:
            ends = (float(np.iinfo(np.int64).min), float(np.iinfo(np.int64).max))  # these mean "to the end"
            others = [number for number in finite if number not in ends and not self._low <= number <= self._high]
            if others:
                held_here = f"{wire.name!r} contains {others[0]:,.0f}"
                self._note_misfit(key, f"{held_here}; the largest {self._named} is {self._high:,}", "saturates")
            return
        if finite.min() < self._low or finite.max() > self._high:
            if all(self._bounds(use) for use in wire.uses):
                self.found[key] = self._low, self._high
            elif finite.max() <= self._high and self.only_masks(wire):
                self.found[key] = self._low / 2, self._high
            else:
                most = float(np.abs(finite).max())
                held_here = f"{wire.name!r} contains {most:.3g}"
                self._note_misfit(key, f"{held_here}; the largest {self._named} is {self._high:,.6g}", "saturates")
            return
        self._lose(key, wire, finite)

    def _look_at_computed(self, key: TensorKey, wire: TypedTensor) -> None:
        """Check a tensor that is computed only from stored values, such as the square of an epsilon."""
        constants = self._graph.index.constants
        found = constants.get(*key) if constants.is_constant(*key) else None
        try:
            values = None if found is None else np.asarray(found.array, np.float64)
        except ModelFileError:  # reported when it is written
            return
        if values is not None and 0 < values.size <= SMALL and np.isfinite(values).all():
            self._lose(key, wire, values.ravel())

    def _lose(self, key: TensorKey, wire: TypedTensor, finite: np.ndarray) -> None:
        """Note a tensor whose small elements lose their digits."""
        if np.abs(finite).max() > self._high:
            return
        error = np.linalg.norm(finite - cast_array(finite, self._graph.change.new).astype(np.float64))
        if error > _LOST * np.linalg.norm(finite):
            least = float(np.abs(finite[finite != 0]).min())
            held_here = f"{wire.name!r} contains {least:.3g}"
            self._note_misfit(key, f"{held_here}, for which {self._named} has too few digits", "is rounded")
            if key in self.misfits:
                self.small[key] = least

    def _note_misfit(self, key: TensorKey, reason: str, clamped: str) -> None:
        if self._saturate:
            self.clamped[key] = f"{reason}, so it {clamped}"
        else:
            self.misfits[key] = reason

    def _bounds(self, use: TensorUse) -> bool:
        return use.node is not None and use.place in CLIP_BOUNDS.get(use.node.op, ())

    @property
    def _named(self) -> str:
        return self._graph.change.names[1]
