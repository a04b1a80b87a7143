"""The minimum cut of a network by Goldberg and Tarjan's method (1988): the side of each item.

The items are nodes that can have either dtype, and the cut edges are Casts.
"""

from collections import deque

SOURCE, SINK = 0, 1
INFINITE_CAPACITY = 1 << 40
"""The capacity of an edge that is never cut."""


class FlowNetwork:
    """Items by number; 0 and 1 are the two sides.  An edge is cut if it leads from side 0 to side 1."""

    def __init__(self) -> None:
        self.edges: list[list[int]] = [[], []]  # indices of the edges of each item
        self.ends: list[int] = []
        self.left: list[int] = []

    def item(self) -> int:
        """A new item."""
        self.edges.append([])
        return len(self.edges) - 1

    def edge(self, start: int, end: int, capacity: int) -> None:
        """Add the cost of having one item on side 0 and the other on side 1."""
        for first, last, size in ((start, end, capacity), (end, start, 0)):
            self.edges[first].append(len(self.ends))
            self.ends.append(last)
            self.left.append(size)

    def cut(self) -> set[int]:
        """The items on side 0, as few as possible."""
        _Flow(self).run()
        return {item for item, level in enumerate(self.levels()) if level < len(self.edges)}

    def levels(self) -> list[int]:
        """The distance of each item from side 0; the number of items if it is unreachable."""
        most = len(self.edges)
        levels = [most] * most
        levels[SOURCE] = 0
        waiting = deque([SOURCE])
        while waiting:
            item = waiting.popleft()
            for edge in self.edges[item]:
                end = self.ends[edge]
                if self.left[edge] and levels[end] == most:
                    levels[end] = levels[item] + 1
                    waiting.append(end)
        return levels


class _Flow:
    """The flow from side 1 back to side 0 against the edges; the most distant excess goes first.

    Excess that cannot reach side 0 any more stays in place: a minimum cut needs only the first of the two phases of
    the method.
    """

    def __init__(self, network: FlowNetwork) -> None:
        self._network, self._most = network, len(network.edges)
        self._edges, self._ends, self._left = network.edges, network.ends, network.left
        self._excess = [0] * self._most
        self._measure()

    def _measure(self) -> None:
        """Measure all distances from side 0 again, because relabelling is slow to find that an item is cut off."""
        self._levels = self._network.levels()
        self._levels[SINK] = self._most
        self._nexts = [0] * self._most
        self._members: list[set[int]] = [set() for _ in range(self._most + 1)]  # items by level
        self._active: list[list[int]] = [[] for _ in range(self._most + 1)]  # items with an excess, by level
        self._lifts = 0
        for item, level in enumerate(self._levels):
            self._members[level].add(item)
            if self._excess[item] and item not in (SOURCE, SINK):
                self._active[level].append(item)

    def run(self) -> None:
        """Push as much flow as possible."""
        for edge in self._edges[SINK]:
            self._send(SINK, edge, self._left[edge ^ 1])
        highest = self._most - 1
        while highest > 0:
            if not self._active[highest]:
                highest -= 1
                continue
            item = self._active[highest].pop()
            if self._levels[item] == highest:  # it may have been lifted meanwhile
                highest = max(highest, self._empty(item))
            if self._lifts > self._most:
                self._measure()
                highest = self._most - 1

    def _empty(self, item: int) -> int:
        """Push the excess of an item; return its final level."""
        edges, level = self._edges[item], self._levels[item]
        while self._excess[item]:
            if self._nexts[item] == len(edges):
                lifted = self._lifted(item)
                if lifted == self._most:
                    break
                level = lifted
                continue
            edge = edges[self._nexts[item]]
            if self._left[edge ^ 1] and self._levels[item] == self._levels[self._ends[edge]] + 1:
                self._send(item, edge, min(self._excess[item], self._left[edge ^ 1]))
            if self._excess[item]:
                self._nexts[item] += 1
        return level

    def _send(self, item: int, edge: int, size: int) -> None:
        """Push so much from an item, against the edge that leads to it."""
        end = self._ends[edge]
        self._left[edge ^ 1] -= size
        self._left[edge] += size
        self._excess[item] -= size
        if size and not self._excess[end] and end not in (SOURCE, SINK) and self._levels[end] < self._most:
            self._active[self._levels[end]].append(end)
        self._excess[end] += size

    def _lifted(self, item: int) -> int:
        """Lift an item just above the lowest item that it can push to; its new level."""
        old, edges = self._levels[item], self._edges[item]
        self._lifts += 1
        above = [self._levels[self._ends[edge]] + 1 for edge in edges if self._left[edge ^ 1]]
        self._move(item, min([*above, self._most]))
        self._nexts[item] = 0
        if not self._members[old]:  # gap: nothing above can reach side 0 any more
            level = old + 1
            while level < self._most and self._members[level]:
                for other in list(self._members[level]):
                    self._move(other, self._most)
                level += 1
        return self._levels[item]

    def _move(self, item: int, level: int) -> None:
        self._members[self._levels[item]].discard(item)
        self._members[level].add(item)
        self._levels[item] = level
