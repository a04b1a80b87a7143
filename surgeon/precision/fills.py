"""Numbers that stand for "as low as can be": the fills of masks and bounds that a narrower dtype cannot hold.

A mask adds -3.4e38, or puts -1e9 there, so that a softmax gives nothing to a place.  In float16 both are infinite, and
a row that is all masked is not a number then.  Half the lowest number does the same, also where two masks meet.
"""

import numpy as np

from surgeon.errors import ModelFileError
from surgeon.file.recasting import limits, recast
from surgeon.indexing.scope import Node
from surgeon.ops.dtypes_told import BOUNDING
from surgeon.ops.records import record
from surgeon.precision.apply import as_tensor
from surgeon.precision.wiring import STORED, Key, Typed, Use, Wiring

SMALL = 1024  # elements up to which stored values are looked at before anything is written
_LOST = 1e-2  # of a stored tensor, the part that rounding may change


class Fills:
    """What is beyond the new dtype among small stored values, and among what only a softmax ever sees.

    found: by stored tensor, the bounds that it saturates at.  unfit: stored tensors that must keep the old dtype, with
    the reason.
    """

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._low, self._high = limits(wiring.change.new)
        self._known: dict[Key, bool] = {}
        self.found: dict[Key, tuple[float, float]] = {}
        self.unfit: dict[Key, str] = {}
        if not (wiring.change.narrows or wiring.change.is_whole):
            return
        for key, wire in wiring.wires.items():
            if wire.maker == STORED and wire.uses:
                self._look_at(key, wire)

    def only_masks(self, wire: Typed) -> bool:
        """Whether what is very low in a tensor is only ever seen by a softmax, or by a bound."""
        key = wire.home, wire.name
        if key not in self._known:
            self._known[key] = False  # of a tensor that needs itself
            self._known[key] = bool(wire.uses) and all(self._is_masking(use) for use in wire.uses)
        return self._known[key]

    def _is_masking(self, use: Use) -> bool:
        if use.node is None:
            return False
        facts = record(use.node.op)
        if facts.softmax or use.place in facts.scores or use.place in facts.mask:
            return True
        passes = facts.family or use.place in facts.carried or (facts.broadcasts and facts.neutral is not None)
        return bool(passes) and all(
            (wire := self._wiring.wire(use.node.scope, name)) is not None and self.only_masks(wire)
            for name in use.node.outputs
            if name
        )

    def _look_at(self, key: Key, wire: Typed) -> None:
        tensor = wire.home.initializers.get(wire.name)
        if tensor is None and wire.node is not None:
            tensor = as_tensor(wire.node.proto)
        if tensor is None or int(np.prod(tensor.dims)) > SMALL:
            return
        try:
            values = self._wiring.draft.value(tensor)
        except ModelFileError:  # whoever has to write it will tell
            return
        finite = np.asarray(values[np.isfinite(values)], np.float64)
        if not finite.size:
            return
        if self._wiring.change.is_whole:
            ends = (float(np.iinfo(np.int64).min), float(np.iinfo(np.int64).max))  # they mean "to the end"
            others = [number for number in finite if number not in ends and not self._low <= number <= self._high]
            if others:
                self.unfit[key] = f"{wire.name!r} holds {others[0]:,.0f}, and {self._named} ends at {self._high:,}"
            return
        if finite.min() < self._low or finite.max() > self._high:
            if all(self._bounds(use) for use in wire.uses):
                self.found[key] = self._low, self._high
            elif finite.max() <= self._high and self.only_masks(wire):
                self.found[key] = self._low / 2, self._high
            else:
                most = float(np.abs(finite).max())
                self.unfit[key] = f"{wire.name!r} holds {most:.3g}, and {self._named} ends at {self._high:,.6g}"
            return
        error = np.linalg.norm(finite - recast(finite, self._wiring.change.new).astype(np.float64))
        if error > _LOST * np.linalg.norm(finite):
            least = float(np.abs(finite[finite != 0]).min())
            self.unfit[key] = f"{wire.name!r} holds {least:.3g}, of which {self._named} keeps too little"

    def _bounds(self, use: Use) -> bool:
        return isinstance(use.node, Node) and use.place in BOUNDING.get(use.node.op, ())

    @property
    def _named(self) -> str:
        return self._wiring.change.names[1]
