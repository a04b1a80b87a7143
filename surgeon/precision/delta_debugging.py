"""The search for nodes to keep where errors are too large: the segments with the largest effect, then less of each."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain

from surgeon.precision.kept_nodes.selectors import NodeAddress
from surgeon.proof.model.bisect import minimal_part

Error = Callable[[Collection[NodeAddress]], float]
_PARTS = 12
MAX_TRIALS = 24
"""Trials after which no part is divided further, and the rest is kept: each costs two runs of the model."""


class KeepMinimizer:
    """Finds which of some nodes to keep so that the error of the outputs is at most `most`.

    parts: nodes of the new dtype, those of a segment together.  error: the error with these nodes kept.  error_by_node:
    for each kept node, the error without its part kept, at least.  trials: how many there were.
    """

    def __init__(self, parts: Sequence[Sequence[NodeAddress]], error: Error, most: float) -> None:
        self._error, self._most = error, most
        self.trials = 0
        self.error_by_node: dict[NodeAddress, float] = {}
        self.final_error = float("inf")
        self._parts = _merged(parts, _PARTS)

    @property
    def holds(self) -> bool:
        """Whether the error is within the limit with these nodes kept."""
        return self.final_error <= self._most

    @property
    def is_cut_short(self) -> bool:
        """Whether fewer nodes may be enough, because the trials ran out."""
        return self.trials >= MAX_TRIALS

    def run(self) -> None:
        """Find the nodes.  If nothing helps, `final_error` is beyond the limit."""
        every = range(len(self._parts))
        self.final_error = self._try(self._all(every))
        if not self.holds or not self._parts:
            return
        alone = [self._try(self._all(other for other in every if other != place)) for place in every]
        order = sorted(every, key=lambda place: alone[place], reverse=True)
        count = 1 + bisect_left(every[1:], True, key=lambda count: self._try(self._all(order[:count])) <= self._most)
        kept = order[:count]
        chosen = {place: self._parts[place] for place in kept}
        for place in reversed(kept):  # the last has the smallest effect
            others = [node for other in kept if other != place for node in chosen[other]]
            chosen[place] = self._reduced(others, chosen[place])
        self.error_by_node = {node: alone[place] for place in kept for node in chosen[place]}

    def _reduced(self, fixed: Sequence[NodeAddress], part: Sequence[NodeAddress]) -> list[NodeAddress]:
        """A sufficient rest of a part."""

        def is_enough(less: Sequence[NodeAddress]) -> bool:
            reached = self._try([*fixed, *less])
            if reached <= self._most:
                self.final_error = reached
            return reached <= self._most

        return minimal_part(part, is_enough, lambda: not self.is_cut_short)

    def _all(self, chosen: Iterable[int]) -> list[NodeAddress]:
        return [node for place in chosen for node in self._parts[place]]

    def _try(self, kept: Collection[NodeAddress]) -> float:
        self.trials += 1
        return self._error(kept)


def _merged(parts: Sequence[Sequence[NodeAddress]], most: int) -> list[list[NodeAddress]]:
    """Neighbours merged into at most so many parts of about equal size, none empty."""
    size = -(-sum(map(len, parts)) // most)
    found: list[list[NodeAddress]] = []
    for part in filter(None, parts):
        if found and len(found[-1]) + len(part) <= size:
            found[-1] += part
        else:
            found.append(list(part))
    if len(found) <= most:
        return found
    return _merged([[*chain.from_iterable(found[at : at + 2])] for at in range(0, len(found), 2)], most)
