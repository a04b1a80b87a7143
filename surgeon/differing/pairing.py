"""Which nodes of two graphs stand for each other.

First what is the same in all that it is computed from, and in all that is computed from it; then what is the same in
one of the two, then within a few steps, then by the scopes that exporters note.  A kind of node that is there as often
in both is paired in the order of the file.  From each pair the search goes on to what the two read and to who reads
them, first where that is the same, then where only the op is.  Names are not looked at.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from surgeon.differing.side import MADE, GraphSide
from surgeon.file.difference import common

STEPS = (4, 2, 1)  # how far around a node is looked, widest first

Keys = Sequence[Hashable]


class Pairing:
    """The pairs of two graphs.  to: for each node of the first its counterpart in the second, back: the other way."""

    def __init__(self, one: GraphSide, other: GraphSide) -> None:
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
        for steps in STEPS:
            self._pair([self._around(place, steps) for place in (0, 1)])
            self._spread(self._same)
        self._pair([list(zip(side.paths, own, strict=True)) for side, own in zip(sides, self._alike, strict=True)])
        self._spread(self._same)
        self._spread(self._same_op)
        self._in_order()
        self._spread(self._same_op)

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _own(self, side: GraphSide) -> list[int]:
        """What each node is by itself: its op, what its attributes say, what it reads that no node makes."""
        found = []
        for at, (node, said, reads) in enumerate(zip(side.nodes, side.said, side.reads, strict=True)):
            given = tuple((kind, "" if kind == MADE else what) for kind, _, what in reads)
            found.append(self._number((node.op, said, given, len(node.outputs), side.ends.get(at, ""))))
        return found

    def _up(self, side: GraphSide, own: Sequence[int]) -> list[int]:
        """Nodes of one number are computed from the same in the same way."""
        found = [0] * len(own)
        for at in side.order:
            reads = tuple((found[maker], what) for kind, maker, what in side.reads[at] if kind == MADE)
            found[at] = self._number(("up", own[at], reads))
        return found

    def _down(self, side: GraphSide, own: Sequence[int]) -> list[int]:
        """From nodes of one number the same is computed in the same way."""
        found = [0] * len(own)
        for at in reversed(side.order):
            readers = tuple(sorted((place, found[who], slot) for place, who, slot in side.readers[at]))
            found[at] = self._number(("down", own[at], readers))
        return found

    def _around(self, place: int, steps: int) -> list[int]:
        """Nodes of one number have the same around them, so many steps far (Weisfeiler and Leman, 1968).

        Those that have a counterpart are known by it; of the others alone it is looked around.
        """
        side, own, done = (self.one, self.other)[place], self._alike[place], (self.to, self.back)[place]
        pairs = ((at, to if place == 0 else at) for at, to in done.items())
        found = list(own)
        for at, number in pairs:
            found[at] = self._number(("pair", number))
        left = [at for at in range(len(own)) if at not in done]
        for _ in range(steps):
            now = [
                self._number((
                    found[at],
                    tuple((found[maker], what) if kind == MADE else -1 for kind, maker, what in side.reads[at]),
                    tuple(sorted((output, found[who], slot) for output, who, slot in side.readers[at])),
                ))
                for at in left
            ]
            for at, number in zip(left, now, strict=True):
                found[at] = number
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
                    self._join(one, other)

    def _join(self, one: int, other: int) -> None:
        self.to[one], self.back[other] = other, one

    def _same(self, one: int, other: int) -> bool:
        return self._alike[0][one] == self._alike[1][other]

    def _same_op(self, one: int, other: int) -> bool:
        return self.one.nodes[one].op == self.other.nodes[other].op

    def _spread(self, may_pair: Callable[[int, int], bool]) -> None:
        """Go on from pairs to what both read, and to who reads both."""
        waiting = deque(self.to.items())
        while waiting:
            one, other = waiting.popleft()
            for a, b in (*self._makers(one, other), *self._readers(one, other)):
                if a not in self.to and b not in self.back and may_pair(a, b):
                    self._join(a, b)
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

    def _in_order(self) -> None:
        """Of what is left, pair what stands in the same order and has a neighbour that is paired alike."""
        left = [
            [at for at in range(len(side.nodes)) if at not in done]
            for side, done in ((self.one, self.to), (self.other, self.back))
        ]
        ops: list[Keys] = [[node.op for node in side.nodes] for side in (self.one, self.other)]
        for keys in (self._alike, ops):
            rows = [[at for at in row if at not in done] for row, done in zip(left, (self.to, self.back), strict=True)]
            ours, theirs = ([side[at] for at in row] for side, row in zip(keys, rows, strict=True))
            for a, b in common(ours, theirs):
                one, other = rows[0][a], rows[1][b]
                if self._touch(one, other):
                    self._join(one, other)

    def _touch(self, one: int, other: int) -> bool:
        """Whether a neighbour of one is the counterpart of one of the other's."""
        around = set(_neighbours(self.other, other))
        return any(self.to.get(at) in around for at in _neighbours(self.one, one))


def _by_use(
    side: GraphSide, readers: Iterable[tuple[int, int, int]], done: dict[int, int]
) -> dict[Hashable, list[int]]:
    found: dict[Hashable, list[int]] = defaultdict(list)
    for place, who, slot in readers:
        if who not in done:
            found[place, slot, side.nodes[who].op].append(who)
    return found


def _neighbours(side: GraphSide, at: int) -> Iterator[int]:
    yield from (maker for kind, maker, _ in side.reads[at] if kind == MADE)
    yield from (who for _, who, _ in side.readers[at])
