"""Numbers that stand for "as low as can be": the fills of masks and bounds that a narrower dtype cannot hold.

A mask adds -3.4e38, or puts -1e9 there, so that a softmax gives nothing to a place.  In float16 both are infinite, and
a row that is all masked is not a number then.  Half the lowest number does the same, also where two masks meet.
"""

from typing import NamedTuple

import numpy as np
from onnx import TensorProto

from surgeon.errors import ModelFileError
from surgeon.file.tensors.casting import CastRange, cast_array, finite_limits, smallest
from surgeon.ir.scope import Node
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.ops.traits.dtype_traits import CLIP_BOUNDS
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.precision.analyses.dtype_graph import DtypeGraph, TensorKey, TensorUse, TypedTensor
from surgeon.precision.analyses.stored_tensors import held

SMALL = 1024  # elements up to which stored values are looked at before anything is written
_LOST = 1e-2  # of a stored tensor, the part that rounding may change


class StoredMisfit(NamedTuple):
    """A stored tensor that the new dtype cannot hold."""

    reason: str
    """Why it keeps the old dtype."""
    clamped: str
    """What happens to its values if it is converted nevertheless."""


def range_misfit(name: str, seen: CastRange, new: int) -> StoredMisfit | None:
    """What is said of a large stored tensor that does not fit a new dtype; None where it does."""
    (low, high), named = finite_limits(new), dtype_name(new)
    most = f"{seen.largest:,.6g}"
    if seen.most > high or seen.least < low:
        clamped = f"{name!r} saturates at {high:,.6g}, from {most}"
        return StoredMisfit(f"{name!r} reaches {most}, and {named} ends at {high:,.6g}", clamped)
    tiny = smallest(new)
    if 0 < seen.largest < tiny:
        reason = f"{name!r} reaches {seen.largest:.3g}, and {named} has all digits from {tiny:.3g} on"
        return StoredMisfit(reason, f"{reason}: it is rounded")
    return None


class MaskSentinels:
    """What is beyond the new dtype among small stored values, and among what only a softmax ever sees.

    saturate: have all saturate that does not fit.  found: by stored tensor, the bounds that it saturates at.  unfit:
    stored tensors that must keep the old dtype, with the reason; small: of those that lose their digits, the least
    number.  clamped: of those that saturate instead, a sentence.
    """

    def __init__(self, wiring: DtypeGraph, *, saturate: bool) -> None:
        self._wiring, self._saturate = wiring, saturate
        self._low, self._high = finite_limits(wiring.change.new)
        self._known: dict[TensorKey, bool] = {}
        self.found: dict[TensorKey, tuple[float, float]] = {}
        self.unfit: dict[TensorKey, str] = {}
        self.clamped: dict[TensorKey, str] = {}
        self.small: dict[TensorKey, float] = {}
        if not (wiring.change.narrows or wiring.change.is_integer):
            return
        for key, wire in wiring.tensors.items():
            tensor = held(wire) if wire.uses else None
            if tensor is not None:
                self._look_at(key, wire, tensor)
            elif wire.uses and wiring.change.narrows:
                self._look_at_computed(key, wire)

    def only_masks(self, wire: TypedTensor) -> bool:
        """Whether what is very low in a tensor is only ever seen by a softmax, or by a bound."""
        key = wire.home, wire.name
        if key not in self._known:
            self._known[key] = False  # of a tensor that needs itself
            self._known[key] = bool(wire.uses) and all(self._is_masking(use) for use in wire.uses)
        return self._known[key]

    def _is_masking(self, use: TensorUse) -> bool:
        if use.node is None:
            return False
        facts = traits_of(use.node.op)
        if facts.numerics.is_softmax or use.place in facts.operands.logits or use.place in facts.operands.masks:
            return True
        has_neutral = facts.shape.broadcasts and facts.algebra.neutral is not None
        passes = facts.algebra.family or use.place in facts.data.carried or has_neutral
        return bool(passes) and all(
            (wire := self._wiring.wire(use.node.scope, name)) is not None and self.only_masks(wire)
            for name in use.node.outputs
            if name
        )

    def _look_at(self, key: TensorKey, wire: TypedTensor, tensor: TensorProto) -> None:
        if int(np.prod(tensor.dims)) > SMALL:
            return
        try:
            values = self._wiring.draft.value(tensor)
        except ModelFileError:  # whoever has to write it will tell
            return
        finite = np.asarray(values[np.isfinite(values)], np.float64)
        if not finite.size:
            return
        if self._wiring.change.is_integer:
            ends = (float(np.iinfo(np.int64).min), float(np.iinfo(np.int64).max))  # they mean "to the end"
            others = [number for number in finite if number not in ends and not self._low <= number <= self._high]
            if others:
                held_here = f"{wire.name!r} holds {others[0]:,.0f}"
                self._misfits(key, f"{held_here}, and {self._named} ends at {self._high:,}", "saturates")
            return
        if finite.min() < self._low or finite.max() > self._high:
            if all(self._bounds(use) for use in wire.uses):
                self.found[key] = self._low, self._high
            elif finite.max() <= self._high and self.only_masks(wire):
                self.found[key] = self._low / 2, self._high
            else:
                most = float(np.abs(finite).max())
                held_here = f"{wire.name!r} holds {most:.3g}"
                self._misfits(key, f"{held_here}, and {self._named} ends at {self._high:,.6g}", "saturates")
            return
        self._lose(key, wire, finite)

    def _look_at_computed(self, key: TensorKey, wire: TypedTensor) -> None:
        """What follows from stored values alone, as the square of an epsilon does."""
        constants = self._wiring.index.constants
        found = constants.get(*key) if constants.is_constant(*key) else None
        try:
            values = None if found is None else np.asarray(found.array, np.float64)
        except ModelFileError:  # whoever has to write it will tell
            return
        if values is not None and 0 < values.size <= SMALL and np.isfinite(values).all():
            self._lose(key, wire, values.ravel())

    def _lose(self, key: TensorKey, wire: TypedTensor, finite: np.ndarray) -> None:
        """Note a tensor whose small numbers lose their digits."""
        if np.abs(finite).max() > self._high:
            return
        error = np.linalg.norm(finite - cast_array(finite, self._wiring.change.new).astype(np.float64))
        if error > _LOST * np.linalg.norm(finite):
            least = float(np.abs(finite[finite != 0]).min())
            held_here = f"{wire.name!r} holds {least:.3g}"
            self._misfits(key, f"{held_here}, of which {self._named} keeps too little", "is rounded")
            if key in self.unfit:
                self.small[key] = least

    def _misfits(self, key: TensorKey, reason: str, clamped: str) -> None:
        if self._saturate:
            self.clamped[key] = f"{reason}: it {clamped}"
        else:
            self.unfit[key] = reason

    def _bounds(self, use: TensorUse) -> bool:
        return isinstance(use.node, Node) and use.place in CLIP_BOUNDS.get(use.node.op, ())

    @property
    def _named(self) -> str:
        return self._wiring.change.names[1]
