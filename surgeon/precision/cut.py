"""The least cut of a small network, by Dinic's method (1970): which of two sides each item is to be on.

Here the items are nodes that may be of either dtype, and what is cut are Casts.
"""

from collections import deque

SOURCE, SINK = 0, 1
ALWAYS = 1 << 40
"""The capacity of an edge that is never cut."""


class Network:
    """Items by number, 0 and 1 being the two sides themselves; edges are cut where they lead from side 0 to side 1."""

    def __init__(self) -> None:
        self._edges: list[list[int]] = [[], []]  # of an item, the places of its edges
        self._ends: list[int] = []
        self._left: list[int] = []

    def item(self) -> int:
        """A new item."""
        self._edges.append([])
        return len(self._edges) - 1

    def edge(self, start: int, end: int, capacity: int) -> None:
        """Have it cost so much that one is on side 0 and the other on side 1."""
        for first, last, size in ((start, end, capacity), (end, start, 0)):
            self._edges[first].append(len(self._ends))
            self._ends.append(last)
            self._left.append(size)

    def cut(self) -> set[int]:
        """The items on side 0, as few as there can be."""
        while (levels := self._levels())[SINK] >= 0:
            nexts = [0] * len(self._edges)
            while self._push(levels, nexts):
                pass
        return {item for item, level in enumerate(levels) if level >= 0}

    def _levels(self) -> list[int]:
        """How far each item is from side 0, -1 where it is not reached."""
        levels = [-1] * len(self._edges)
        levels[SOURCE] = 0
        waiting = deque([SOURCE])
        while waiting:
            item = waiting.popleft()
            for edge in self._edges[item]:
                end = self._ends[edge]
                if self._left[edge] and levels[end] < 0:
                    levels[end] = levels[item] + 1
                    waiting.append(end)
        return levels

    def _push(self, levels: list[int], nexts: list[int]) -> bool:
        """Send as much as one way takes from side 0 to side 1; False where there is no way left."""
        way: list[int] = []
        item = SOURCE
        while item != SINK:
            edges = self._edges[item]
            while nexts[item] < len(edges):
                edge = edges[nexts[item]]
                if self._left[edge] and levels[self._ends[edge]] == levels[item] + 1:
                    break
                nexts[item] += 1
            else:
                if not way:
                    return False
                edge = way.pop()
                item = self._ends[edge ^ 1]
                nexts[item] += 1
                continue
            way.append(edge)
            item = self._ends[edge]
        least = min(self._left[edge] for edge in way)
        for edge in way:
            self._left[edge] -= least
            self._left[edge ^ 1] += least
        return True
