"""Where the whole moves too far: the parts that move it most are kept too, until it holds."""

from collections.abc import Callable, Collection, Sequence

from surgeon.precision.keeping import Place

Error = Callable[[Collection[Place]], float]
_PARTS = 8
_MOST_TRIALS = 48


class Lessening:
    """Which of some nodes to keep so that the whole moves by no more than `most`.

    nodes: those that are of the new dtype, in order.  error: how far the whole moves where these are kept.
    moved: by node kept in the end, how far its part alone moves the whole.
    """

    def __init__(self, nodes: Sequence[Place], error: Error, most: float) -> None:
        self._error, self._most = error, most
        self._trials = 0
        self.moved: dict[Place, float] = {}
        self.reached = float("inf")
        self._nodes = list(nodes)

    def run(self) -> None:
        """Find them.  Where nothing helps, `reached` is beyond what was asked for."""
        parts = _parts(self._nodes, _PARTS)
        others = [[node for other in parts if other is not part for node in other] for part in parts]
        alone = {place: self._try(rest) for place, rest in enumerate(others)}
        order = sorted(alone, key=lambda place: alone[place], reverse=True)
        kept: list[int] = []
        for place in order:
            kept.append(place)
            self.reached = self._try(self._all(parts, kept))
            if self.reached <= self._most:
                break
        else:
            self.moved = {node: alone[place] for place, part in enumerate(parts) for node in part}
            return
        fixed = [node for place in kept[:-1] for node in parts[place]]
        last = self._narrowed(fixed, parts[kept[-1]])
        for place in kept[:-1]:
            self.moved.update((node, alone[place]) for node in parts[place])
        self.moved.update((node, alone[kept[-1]]) for node in last)

    def _narrowed(self, fixed: Sequence[Place], part: Sequence[Place]) -> list[Place]:
        """The smallest piece of a part that is enough, by halving."""
        rest = list(part)
        while len(rest) > 1 and self._trials < _MOST_TRIALS:
            for half in _parts(rest, 2):
                reached = self._try([*fixed, *half])
                if reached <= self._most:
                    rest, self.reached = half, reached
                    break
            else:
                break
        return rest

    def _try(self, kept: Collection[Place]) -> float:
        self._trials += 1
        return self._error(kept)

    @staticmethod
    def _all(parts: Sequence[Sequence[Place]], chosen: Sequence[int]) -> list[Place]:
        return [node for place in chosen for node in parts[place]]


def _parts(items: Sequence[Place], count: int) -> list[list[Place]]:
    """So many runs of neighbours, or fewer, none empty."""
    size = -(-len(items) // count) if items else 1
    return [list(items[at : at + size]) for at in range(0, len(items), size)]
