"""Which nodes of two graphs stand for each other.

First what is the same in all that it is computed from, and in all that is computed from it; then what is the same in
one of the two; where the files have one order, by that; then within a few steps, then by the scopes that exporters
note.  A kind of node that is there as often in both is paired in the order of the file.  From each pair the search
goes on to what the two read and to who reads them, first where that is the same, then where only the op is; what is
left is laid side by side in the order of the file.  Names are not looked at.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from surgeon.display.diff.diff_graph import MADE, DiffGraph
from surgeon.display.diff.sequence_alignment import AGREED, aligned

STEPS = (4, 2, 1)  # how far around a node is looked, widest first
RUN = 4  # nodes in a row that are paired for their order alone

Keys = Sequence[Hashable]


class NodePairing:
    """The pairs of two graphs.  to: for each node of the first its counterpart in the second, back: the other way."""

    def __init__(self, one: DiffGraph, other: DiffGraph) -> None:
        self.one, self.other = one, other
        self.to: dict[int, int] = {}
        self.back: dict[int, int] = {}
        self._numbers: dict[Hashable, int] = {}
        self._alike = [self._own(one), self._own(other)]
        self._run()

    def _run(self) -> None:
        sides = (self.one, self.other)
        ups = self.ups = [self._up(side, own) for side, own in zip(sides, self._alike, strict=True)]
        downs = [self._down(side, own) for side, own in zip(sides, self._alike, strict=True)]
        both = [list(zip(up, down, strict=True)) for up, down in zip(ups, downs, strict=True)]
        for keys in (both, ups, downs):
            self._pair(keys)
        self._in_one_order()
        self._by_surroundings()
        self._pair([list(zip(side.paths, own, strict=True)) for side, own in zip(sides, self._alike, strict=True)])
        self._spread(self._same)
        self._spread(self._same_op)
        self._in_order()
        self._spread(self._same_op)

    def _by_surroundings(self) -> None:
        """Pair what has the same around it, as far as that can be seen, then nearer and nearer."""
        seen: list[list[list[int]]] = []
        count = -1
        for steps in STEPS:
            if self._is_done:
                return
            if count != len(self.to):  # what is paired is seen by the others
                count = len(self.to)
                seen = [self._around(place, steps) for place in (0, 1)]
            self._pair([found[steps] for found in seen])
            self._spread(self._same)

    @property
    def _is_done(self) -> bool:
        """Whether one of the graphs has no node without a counterpart."""
        return len(self.to) in (len(self.one.nodes), len(self.other.nodes))

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _own(self, side: DiffGraph) -> list[int]:
        """What each node is by itself: its op, what its attributes say, what it reads that no node makes."""
        found = []
        for at, (node, said, reads) in enumerate(zip(side.nodes, side.said, side.reads, strict=True)):
            given = tuple((kind, "" if kind == MADE else what) for kind, _, what in reads)
            ends = tuple(sorted(key for _, key in side.ends.get(at, ())))
            found.append(self._number((node.op, said, given, len(node.outputs), ends)))
        return found

    def _up(self, side: DiffGraph, own: Sequence[int]) -> list[int]:
        """Nodes of one number are computed from the same in the same way."""
        found = [0] * len(own)
        for at in side.order:
            reads = tuple((found[maker], what) for kind, maker, what in side.reads[at] if kind == MADE)
            found[at] = self._number(("up", own[at], reads))
        return found

    def _down(self, side: DiffGraph, own: Sequence[int]) -> list[int]:
        """From nodes of one number the same is computed in the same way."""
        found = [0] * len(own)
        for at in reversed(side.order):
            readers = tuple(sorted((place, found[who], slot) for place, who, slot in side.readers[at]))
            found[at] = self._number(("down", own[at], readers))
        return found

    def _around(self, place: int, steps: int) -> list[list[int]]:
        """By how far is looked: nodes of one number have the same around them (Weisfeiler and Leman, 1968).

        Those that have a counterpart are known by it; of the others alone it is looked around.
        """
        side, own, done = (self.one, self.other)[place], self._alike[place], (self.to, self.back)[place]
        now = list(own)
        for at, to in done.items():
            now[at] = self._number(("pair", to if place == 0 else at))
        left = [at for at in range(len(own)) if at not in done]
        makers = [[maker for kind, maker, _ in side.reads[at] if kind == MADE] for at in left]
        for at in left:  # which outputs it reads stays so
            now[at] = self._number((now[at], tuple(what for kind, _, what in side.reads[at] if kind == MADE)))
        found = [now]
        for _ in range(steps):
            now = list(now)
            for at, made in zip(left, makers, strict=True):
                before, readers = found[-1], side.readers[at]
                uses = [(output, before[who], slot) for output, who, slot in readers]
                if len(uses) > 1:
                    uses.sort()
                now[at] = self._number((before[at], *[before[maker] for maker in made], *uses))
            found.append(now)
        return found

    def are_computed_alike(self, one: int, other: int) -> bool:
        """Whether two nodes are computed from the same in the same way, all the way from what the graphs are given."""
        return self.ups[0][one] == self.ups[1][other]

    def _pair(self, keys: Sequence[Keys]) -> None:
        """Pair nodes without a counterpart that have one key, where both graphs have as many of it."""
        rows: list[dict[Hashable, list[int]]] = []
        for side, done in zip(keys, (self.to, self.back), strict=True):
            found: dict[Hashable, list[int]] = defaultdict(list)
            for at, key in enumerate(side):
                if at not in done:
                    found[key].append(at)
            rows.append(found)
        for key, ours in rows[0].items():
            theirs = rows[1].get(key, ())
            if len(ours) == len(theirs):
                for one, other in zip(ours, theirs, strict=True):
                    self.join(one, other)

    def join(self, one: int, other: int) -> None:
        """Have two nodes stand for each other."""
        self.to[one], self.back[other] = other, one

    def _same(self, one: int, other: int) -> bool:
        return self._alike[0][one] == self._alike[1][other]

    def _same_op(self, one: int, other: int) -> bool:
        return self.one.nodes[one].op == self.other.nodes[other].op

    def _spread(self, may_pair: Callable[[int, int], bool]) -> None:
        """Go on from pairs to what both read, and to who reads both."""
        if self._is_done:
            return
        left = (at for at in range(len(self.one.nodes)) if at not in self.to)
        starts = {near for at in left for near in _neighbours(self.one, at) if near in self.to}
        waiting = deque((at, self.to[at]) for at in sorted(starts))
        while waiting:
            one, other = waiting.popleft()
            for a, b in (*self._makers(one, other), *self._readers(one, other)):
                if a not in self.to and b not in self.back and may_pair(a, b):
                    self.join(a, b)
                    waiting.append((a, b))

    def _makers(self, one: int, other: int) -> Iterator[tuple[int, int]]:
        pairs = zip(self.one.reads[one], self.other.reads[other], strict=False)
        for (kind, a, what), (other_kind, b, also) in pairs:
            if kind == other_kind == MADE and what == also:
                yield a, b

    def _readers(self, one: int, other: int) -> Iterator[tuple[int, int]]:
        """Those that read the same output as the same input, where each graph has one such of an op."""
        ours = _by_use(self.one, self.one.readers[one], self.to)
        theirs = _by_use(self.other, self.other.readers[other], self.back)
        for use, some in ours.items():
            others = theirs.get(use, [])
            if len(some) == len(others) == 1:
                yield some[0], others[0]

    def _in_one_order(self) -> None:
        """Pair long runs where the files have most of what is left in one order: layers may be told by nothing else."""
        rows = self._left()
        runs = [run for run in self._runs(self._alike, rows) if len(run) >= AGREED]
        if 2 * sum(map(len, runs)) >= min(map(len, rows)):
            for run in runs:
                for one, other in run:
                    self.join(one, other)

    def _in_order(self) -> None:
        """Pair what stands in the same order: runs of it, and single nodes that have a neighbour paired alike."""
        ops: list[Keys] = [[node.op for node in side.nodes] for side in (self.one, self.other)]
        for keys in (self._alike, ops):
            for run in self._runs(keys, self._left()):
                for one, other in run:
                    if len(run) >= RUN or self._touch(one, other):
                        self.join(one, other)

    def _left(self) -> list[list[int]]:
        """The nodes of each graph that have no counterpart."""
        sides = ((self.one, self.to), (self.other, self.back))
        return [[at for at in range(len(side.nodes)) if at not in done] for side, done in sides]

    def _runs(self, keys: Sequence[Keys], rows: Sequence[Sequence[int]]) -> Iterator[list[tuple[int, int]]]:
        """Runs of pairs that have one key and stand in one order."""
        ours, theirs = ([side[at] for at in row] for side, row in zip(keys, rows, strict=True))
        for at, to, length in aligned(ours, theirs):
            yield list(zip(rows[0][at : at + length], rows[1][to : to + length], strict=True))

    def _touch(self, one: int, other: int) -> bool:
        """Whether a neighbour of one is the counterpart of one of the other's."""
        around = set(_neighbours(self.other, other))
        return any(self.to.get(at) in around for at in _neighbours(self.one, one))


def _by_use(
    side: DiffGraph, readers: Iterable[tuple[int, int, int]], done: dict[int, int]
) -> dict[Hashable, list[int]]:
    found: dict[Hashable, list[int]] = defaultdict(list)
    for place, who, slot in readers:
        if who not in done:
            found[place, slot, side.nodes[who].op].append(who)
    return found


def _neighbours(side: DiffGraph, at: int) -> Iterator[int]:
    yield from (maker for kind, maker, _ in side.reads[at] if kind == MADE)
    yield from (who for _, who, _ in side.readers[at])
