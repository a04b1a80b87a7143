"""Pairs the nodes of two graphs.

First nodes with equal inputs and equal outputs, traced through the whole graph; then with only one of the two; then, if
the files have the same order, by order; then by surroundings of a few steps; then by the module scopes of exporters.
Nodes with equal keys are paired in file order if both graphs have the same number.  Each pair spreads to producers and
consumers, first to equal nodes, then to nodes of the same op; the rest is aligned in file order.  Names are ignored.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from surgeon.display.diff.diff_graph import PRODUCED, DiffGraph
from surgeon.display.diff.sequence_alignment import MIN_RUN, aligned
from surgeon.ir.structure import Structure

STEPS = (4, 2, 1)  # radius of the surroundings, widest first
RUN = 4  # nodes in a row that are paired only by order

Keys = Sequence[Hashable]


class NodePairing:
    """The paired nodes of two graphs.  second_of: for nodes of the first graph their counterparts; first_of: the
    reverse.
    """

    def __init__(self, one: DiffGraph, other: DiffGraph) -> None:
        self.one, self.other = one, other
        self.second_of: dict[int, int] = {}
        self.first_of: dict[int, int] = {}
        self._number = Structure().number
        self._local = [self._local_keys(one), self._local_keys(other)]
        self._run()

    def _run(self) -> None:
        sides = (self.one, self.other)
        self.input_keys = [self._input_keys(side, local) for side, local in zip(sides, self._local, strict=True)]
        output_keys = [self._output_keys(side, local) for side, local in zip(sides, self._local, strict=True)]
        both = [list(zip(*keys, strict=True)) for keys in zip(self.input_keys, output_keys, strict=True)]
        for keys in (both, self.input_keys, output_keys):
            self._pair(keys)
        self._pair_by_order()
        self._pair_by_surroundings()
        self._pair([list(zip(side.paths, local, strict=True)) for side, local in zip(sides, self._local, strict=True)])
        self._spread_pairs(self._are_equal)
        self._spread_pairs(self._have_same_op)
        self._pair_aligned_runs()
        self._spread_pairs(self._have_same_op)

    def _pair_by_surroundings(self) -> None:
        """Pair nodes with equal surroundings, of decreasing radius."""
        seen: list[list[list[int]]] = []
        count = -1
        for steps in STEPS:
            if self._is_done:
                return
            if count != len(self.second_of):  # new pairs change the surroundings of others
                count = len(self.second_of)
                seen = [self._surrounding_keys(place, steps) for place in (0, 1)]
            self._pair([found[steps] for found in seen])
            self._spread_pairs(self._are_equal)

    @property
    def _is_done(self) -> bool:
        """Whether all nodes of one graph are paired."""
        return len(self.second_of) in (len(self.one.nodes), len(self.other.nodes))

    def _local_keys(self, side: DiffGraph) -> list[int]:
        """A number for each node by its op, attributes, inputs without a producer, and outputs of the graph."""
        found = []
        for at, (node, key, sources) in enumerate(zip(side.nodes, side.attribute_keys, side.sources, strict=True)):
            given = tuple((kind, "" if kind == PRODUCED else what) for kind, _, what in sources)
            ends = tuple(sorted(output for _, output in side.graph_outputs.get(at, ())))
            found.append(self._number((node.op, key, given, len(node.outputs), ends)))
        return found

    def _input_keys(self, side: DiffGraph, local: Sequence[int]) -> list[int]:
        """Equal numbers for nodes that are computed in the same way from the graph's inputs."""
        found = [0] * len(local)
        for at in range(len(side.nodes)):
            sources = tuple((found[producer], what) for kind, producer, what in side.sources[at] if kind == PRODUCED)
            found[at] = self._number(("up", local[at], sources))
        return found

    def _output_keys(self, side: DiffGraph, local: Sequence[int]) -> list[int]:
        """Equal numbers for nodes from which the same outputs are computed in the same way."""
        found = [0] * len(local)
        for at in reversed(range(len(side.nodes))):
            consumers = tuple(sorted((place, found[consumer], slot) for place, consumer, slot in side.consumers[at]))
            found[at] = self._number(("down", local[at], consumers))
        return found

    def _surrounding_keys(self, place: int, steps: int) -> list[list[int]]:
        """By radius, equal numbers for nodes with equal surroundings (Weisfeiler and Leman, 1968).

        A paired node is identified by its counterpart; only unpaired nodes get new numbers.
        """
        side, local, done = (self.one, self.other)[place], self._local[place], (self.second_of, self.first_of)[place]
        keys = list(local)
        for at, to in done.items():
            keys[at] = self._number(("pair", to if place == 0 else at))
        unpaired = [at for at in range(len(local)) if at not in done]
        producers = [[producer for kind, producer, _ in side.sources[at] if kind == PRODUCED] for at in unpaired]
        for at in unpaired:  # the output positions that it reads do not change
            keys[at] = self._number((keys[at], tuple(what for kind, _, what in side.sources[at] if kind == PRODUCED)))
        found = [keys]
        for _ in range(steps):
            keys = list(keys)
            for at, made in zip(unpaired, producers, strict=True):
                before, consumers = found[-1], side.consumers[at]
                uses = [(output, before[consumer], slot) for output, consumer, slot in consumers]
                if len(uses) > 1:
                    uses.sort()
                keys[at] = self._number((before[at], *[before[producer] for producer in made], *uses))
            found.append(keys)
        return found

    def are_computed_alike(self, one: int, other: int) -> bool:
        """Whether two nodes are computed in the same way from the graphs' inputs."""
        return self.input_keys[0][one] == self.input_keys[1][other]

    def _pair(self, keys: Sequence[Keys]) -> None:
        """Pair unpaired nodes with equal keys, if both graphs have the same number of them."""
        rows: list[dict[Hashable, list[int]]] = []
        for side, done in zip(keys, (self.second_of, self.first_of), strict=True):
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
        """Pair two nodes."""
        self.second_of[one], self.first_of[other] = other, one

    def _are_equal(self, one: int, other: int) -> bool:
        return self._local[0][one] == self._local[1][other]

    def _have_same_op(self, one: int, other: int) -> bool:
        return self.one.nodes[one].op == self.other.nodes[other].op

    def _spread_pairs(self, may_pair: Callable[[int, int], bool]) -> None:
        """Spread from pairs to their producers and consumers."""
        if self._is_done:
            return
        unpaired = (at for at in range(len(self.one.nodes)) if at not in self.second_of)
        starts = {near for at in unpaired for near in _neighbours(self.one, at) if near in self.second_of}
        pending = deque((at, self.second_of[at]) for at in sorted(starts))
        while pending:
            one, other = pending.popleft()
            for a, b in (*self._producer_pairs(one, other), *self._consumer_pairs(one, other)):
                if a not in self.second_of and b not in self.first_of and may_pair(a, b):
                    self.join(a, b)
                    pending.append((a, b))

    def _producer_pairs(self, one: int, other: int) -> Iterator[tuple[int, int]]:
        pairs = zip(self.one.sources[one], self.other.sources[other], strict=False)
        for (kind, a, what), (other_kind, b, also) in pairs:
            if kind == other_kind == PRODUCED and what == also:
                yield a, b

    def _consumer_pairs(self, one: int, other: int) -> Iterator[tuple[int, int]]:
        """Consumers of the same output at the same input, if each graph has exactly one of an op."""
        ours = _by_use(self.one, self.one.consumers[one], self.second_of)
        theirs = _by_use(self.other, self.other.consumers[other], self.first_of)
        for use, some in ours.items():
            others = theirs.get(use, [])
            if len(some) == len(others) == 1:
                yield some[0], others[0]

    def _pair_by_order(self) -> None:
        """Pair long runs if most unpaired nodes have the same order: layers may differ in nothing else."""
        rows = self._unpaired()
        runs = [run for run in self._runs(self._local, rows) if len(run) >= MIN_RUN]
        if 2 * sum(map(len, runs)) >= min(map(len, rows)):
            for run in runs:
                for one, other in run:
                    self.join(one, other)

    def _pair_aligned_runs(self) -> None:
        """Pair nodes in the same order: long runs, and single nodes with a paired neighbour."""
        ops: list[Keys] = [[node.op for node in side.nodes] for side in (self.one, self.other)]
        for keys in (self._local, ops):
            for run in self._runs(keys, self._unpaired()):
                for one, other in run:
                    if len(run) >= RUN or self._are_near(one, other):
                        self.join(one, other)

    def _unpaired(self) -> list[list[int]]:
        """The unpaired nodes of each graph."""
        sides = ((self.one, self.second_of), (self.other, self.first_of))
        return [[at for at in range(len(side.nodes)) if at not in done] for side, done in sides]

    def _runs(self, keys: Sequence[Keys], rows: Sequence[Sequence[int]]) -> Iterator[list[tuple[int, int]]]:
        """Runs of pairs with equal keys, in order."""
        ours, theirs = ([side[at] for at in row] for side, row in zip(keys, rows, strict=True))
        for at, to, length in aligned(ours, theirs):
            yield list(zip(rows[0][at : at + length], rows[1][to : to + length], strict=True))

    def _are_near(self, one: int, other: int) -> bool:
        """Whether a neighbour of the one node is paired with a neighbour of the other."""
        around = set(_neighbours(self.other, other))
        return any(self.second_of.get(at) in around for at in _neighbours(self.one, one))


def _by_use(
    side: DiffGraph, consumers: Iterable[tuple[int, int, int]], done: dict[int, int]
) -> dict[Hashable, list[int]]:
    found: dict[Hashable, list[int]] = defaultdict(list)
    for place, consumer, slot in consumers:
        if consumer not in done:
            found[place, slot, side.nodes[consumer].op].append(consumer)
    return found


def _neighbours(side: DiffGraph, at: int) -> Iterator[int]:
    yield from (producer for kind, producer, _ in side.sources[at] if kind == PRODUCED)
    yield from (consumer for _, consumer, _ in side.consumers[at])
